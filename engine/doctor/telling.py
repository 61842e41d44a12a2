"""How a section tells what it finds, while it runs: one JSON object a line, so that what was told outlives a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TextIO

Found = tuple[bool | None, str]  # right, wrong or not checked, and what is said of it
LOST = 86  # exit status of a process that nothing can be trusted in any more
LOST_SIGNS = ("CUDA error", "illegal memory access", "misaligned address", "device-side assert", "unspecified launch")


class Teller:
    """Writes a section's checks, facts and rows.

    Args:
        skip: names of checks that are not to be begun: an earlier process has told of them or died of one.
    """

    def __init__(self, out: TextIO, skip: frozenset[str] = frozenset()) -> None:
        self._out, self._skip = out, skip

    def check(self, name: str, work: Callable[[], Found]) -> None:
        """Do a check and tell how it ended; an exception is a check that failed."""
        if name in self._skip:
            return
        self._tell({"begin": name})
        try:
            ok, said = work()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            if any(sign in text for sign in LOST_SIGNS):
                self._tell({"check": name, "ok": False, "said": text})
                os._exit(LOST)
            ok, said = False, text
        self._tell({"check": name, "ok": ok, "said": said})

    def left_out(self, name: str, why: str) -> None:
        """Something is not checked here, for a reason."""
        self.check(name, lambda: (None, why))

    def fact(self, name: str, value: str | float | bool | None, unit: str = "") -> None:
        """A figure of this machine."""
        self._tell({"fact": name, "value": value, "unit": unit})

    def row(self, **columns: str | float | None) -> None:
        """A row of the section's table."""
        self._tell({"row": columns})

    def _tell(self, record: dict[str, object]) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()
