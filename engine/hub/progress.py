"""Counts the bytes of a download, reports them, and stops it on pause or cancel. Knows no files."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from engine.types import Cancel

Stage = Literal["waiting", "downloading", "checking"]  # "waiting": the hub has not answered for a while
REPORT_SECONDS = 0.1  # between two reports
SPEED_SECONDS = 3.0  # time span over which the speed is measured
POLL_SECONDS = 0.05  # between two checks of the flags while waiting


@dataclass(frozen=True)
class DownloadProgress:
    """The progress of a download, or of the check of a model; amounts are bytes."""

    stage: Stage
    file: str
    file_done: int
    file_bytes: int
    done_bytes: int
    total_bytes: int
    bytes_per_second: float  # over the last seconds; 0 while nothing arrives

    @property
    def share(self) -> float:
        """The finished share, from 0 to 1."""
        return self.done_bytes / self.total_bytes if self.total_bytes else 0.0


Report = Callable[[DownloadProgress], None]


class StoppedError(Exception):
    """Raised inside a download that was paused or cancelled; never leaves the engine."""


@dataclass
class ByteCounter:
    """``at`` bytes of a file are done, after ``before`` bytes of other files."""

    on_progress: Report | None = None
    flags: tuple[Cancel, ...] = ()
    total: int = 0
    stage: Stage = "downloading"
    file: str = ""
    size: int = 0
    before: int = 0
    at: int = 0
    _reported: float = 0.0
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def enter(self, stage: Stage, file: str, size: int, before: int) -> None:
        self.stage, self.file, self.size, self.before, self.at = stage, file, size, before, 0

    def tick(self, at: int, *, is_late: bool = False) -> None:
        """Reports that ``at`` bytes of the file are done, at most once in ``REPORT_SECONDS``.

        Raises:
            StoppedError: a flag is set.
        """
        self.at = at
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            self.report("waiting" if is_late else self.stage)
        self.check()

    def check(self) -> None:
        """Raises ``StoppedError`` if a flag is set."""
        if any(flag.is_set() for flag in self.flags):
            raise StoppedError

    def report(self, stage: Stage) -> None:
        now, done = time.monotonic(), self.before + self.at
        self._reported = now
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now, done))
        while now - self._samples[0][0] > SPEED_SECONDS:
            self._samples.popleft()
        first, at_first = self._samples[0]
        speed = (done - at_first) / (now - first) if now > first else 0.0
        if self.on_progress is not None:
            self.on_progress(DownloadProgress(stage, self.file, self.at, self.size, done, self.total, speed))
