"""Reports of a running section: one JSON object per line, so that they survive a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

Found = tuple[bool | None, str]  # right, wrong or not checked (None), and a message
# of errors after which nothing that the process computes on a card means anything
LOST_SIGNS = ("CUDA error", "illegal memory access", "misaligned address", "device-side assert", "unspecified launch")


class Reporter:
    """Writes a section's checks and facts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def check(self, name: str, work: Callable[[], Found]) -> None:
        """Runs a check and reports its result; an exception is a failure."""
        self._write({"begin": name})
        try:
            ok, said = work()
        except Exception as error:
            ok, said = False, " ".join(f"{type(error).__name__}: {error}".split())[:400]
        self._write({"check": name, "ok": ok, "said": said})
        if ok is False and any(sign in said for sign in LOST_SIGNS):
            raise SystemExit("the device's state is lost")

    def fact(self, name: str, value: str | float | bool | None, unit: str = "") -> None:
        """Reports a figure of this machine."""
        self._write({"fact": name, "value": value, "unit": unit})

    def _write(self, record: dict[str, object]) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()
