"""A kind of hostile input: how one is made from a seed, and the entry of ours that takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

Attempt = Callable[[], float | None]
"""Hands the input that was made to our code, by the entry a user's would take.

It may raise ``SafelightError``, the one error that people see, and nothing else. Returns None, or, where the work is
done in pieces, the longest time in seconds that the GUI thread was held at a stretch.
"""


@dataclass(frozen=True)
class Kind:
    """One kind of input from outside.

    Args:
        name: how the command calls it.
        make: writes an input of this seed into an empty folder (or keeps it in memory) and returns the attempt. It must
            draw everything from the generator it is given. Its time does not count.
        in_window: whether the entry works in the GUI thread, where 0.5 s is the limit; elsewhere it is 10 s.
        prepare: called once in a process before its first case: imports, a QApplication.
        clean: called after each case, in time that does not count.
    """

    name: str
    make: Callable[[Random, Path], Attempt]
    in_window: bool = False
    prepare: Callable[[], None] = lambda: None
    clean: Callable[[], None] = lambda: None

    @property
    def seconds(self) -> float:
        """The longest that an attempt may take."""
        return 0.5 if self.in_window else 10.0
