"""How a section reports while it runs: one JSON object a line, so that what was reported outlives a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TextIO

Found = tuple[bool | None, str]  # right, wrong or not checked, and what is said of it
LOST = 86  # exit status of a process that nothing can be trusted in any more
LOST_SIGNS = ("CUDA error", "illegal memory access", "misaligned address", "device-side assert", "unspecified launch")


class Reporter:
    """Writes a section's checks, facts and rows.

    Args:
        skip: names of checks that are not to be begun: an earlier process has reported them or died of one.
    """

    def __init__(self, out: TextIO, skip: frozenset[str] = frozenset()) -> None:
        self._out, self._skip = out, skip

    def check(self, name: str, work: Callable[[], Found]) -> None:
        """Do a check and report how it ended; an exception is a check that failed."""
        if name in self._skip:
            return
        self._write({"begin": name})
        try:
            ok, said = work()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            if any(sign in text for sign in LOST_SIGNS):
                self._write({"check": name, "ok": False, "said": text})
                os._exit(LOST)
            ok, said = False, text
        self._write({"check": name, "ok": ok, "said": said})

    def left_out(self, name: str, why: str) -> None:
        """Something is not checked here, for a reason."""
        self.check(name, lambda: (None, why))

    def fact(self, name: str, value: str | float | bool | None, unit: str = "") -> None:
        """A figure of this machine."""
        self._write({"fact": name, "value": value, "unit": unit})

    def row(self, **columns: str | float | None) -> None:
        """A row of the section's table."""
        self._write({"row": columns})

    def _write(self, record: dict[str, object]) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()
