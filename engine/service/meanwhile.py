"""Work before a run begins that may take seconds, done in a thread while the other runs go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from engine.service.replies import PassWanted
from engine.types import Cancel

POLL_SECONDS = 0.05  # how long there is waited at a time, where no other run has a pass to perform
T = TypeVar("T")


class _Stop:
    """Set with another flag, or by itself."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self.is_given_up = False

    def is_set(self) -> bool:
        return self.is_given_up or self._cancel.is_set()


def meanwhile(work: Callable[[Cancel], T], cancel: Cancel) -> Generator[PassWanted, None, T]:
    """Do work in a thread; comes to what it returns. It is handed a flag that is set where nobody wants it any more.

    Raises:
        Exception: whatever the work raises.
    """
    stop = _Stop(cancel)
    with ThreadPoolExecutor(1, "safelight-meanwhile") as pool:
        try:
            future = pool.submit(work, stop)
            while not future.done():
                yield PassWanted(future)
        except BaseException:
            stop.is_given_up = True
            raise
    return future.result()


def without_waiting(passes: Sequence[PassWanted]) -> list[PassWanted]:
    """The passes that are to be performed; where none is, waits a moment for the work of the others."""
    works = [wanted.what for wanted in passes if isinstance(wanted.what, Future)]
    others = [wanted for wanted in passes if not isinstance(wanted.what, Future)]
    if works and not others:
        wait(works, POLL_SECONDS, FIRST_COMPLETED)
    return others
