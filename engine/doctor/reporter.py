"""Reports of a running section: one JSON object per line, so that they survive a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TextIO

Found = tuple[bool | None, str]  # right, wrong or not checked (None), and a message
LOST = 86  # exit status of a process whose device state is unreliable after a failure
LOST_SIGNS = ("CUDA error", "illegal memory access", "misaligned address", "device-side assert", "unspecified launch")


class Reporter:
    """Writes a section's checks, facts and rows.

    Args:
        skip: names of checks not to be run: an earlier process has reported them or crashed in one.
    """

    def __init__(self, out: TextIO, skip: frozenset[str] = frozenset()) -> None:
        self._out, self._skip = out, skip

    def check(self, name: str, work: Callable[[], Found]) -> None:
        """Runs a check and reports its result; an exception is a failure."""
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
        """Reports that something is not checked here, and why."""
        self.check(name, lambda: (None, why))

    def fact(self, name: str, value: str | float | bool | None, unit: str = "") -> None:
        """Reports a figure of this machine."""
        self._write({"fact": name, "value": value, "unit": unit})

    def row(self, **columns: str | float | None) -> None:
        """Reports a row of the section's table."""
        self._write({"row": columns})

    def _write(self, record: dict[str, object]) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()
