"""Counts the bytes of a download, reports its progress, and stops it on pause or cancel. Knows no files."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.types import Cancel

Stage = Literal["waiting", "downloading", "checking"]  # "waiting": the hub has not answered for a while
REPORT_SECONDS = 0.1  # between two reports
SPEED_SECONDS = 5.0  # time span over which the speed is measured
POLL_SECONDS = 0.05  # between two checks of the flags while waiting


@dataclass(frozen=True)
class DownloadProgress:
    """The progress of a download, or of the check of a model."""

    stage: Stage
    file: str
    done_bytes: int
    total_bytes: int
    bytes_per_second: float  # over the last seconds; 0 if it is not known yet

    @property
    def share(self) -> float:
        """The finished share, from 0 to 1."""
        return self.done_bytes / self.total_bytes if self.total_bytes else 0.0


Report = Callable[[DownloadProgress], None]


class StoppedError(Exception):
    """Raised inside a download that was paused or cancelled; never leaves the engine."""


class ByteCounter:
    """Bytes done of a total; ``check`` raises once one of the flags is set."""

    def __init__(
        self,
        total: int,
        done: int,
        report: Report | None = None,
        flags: tuple[Cancel, ...] = (),
        stage: Stage = "downloading",
    ) -> None:
        self.stage: Stage = stage
        self._stage_before: Stage = stage
        self.file = ""
        self._total, self._done = total, done
        self._on_progress = report
        self._flags = flags
        self._reported = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def enter(self, stage: Stage, file: str) -> None:
        self.stage, self.file = stage, file
        self.report()

    def answer_is_late(self, is_late: bool) -> None:
        """Reports that an answer is late, or that a late one has arrived."""
        if is_late:
            self._stage_before = self.stage
        self.enter("waiting" if is_late else self._stage_before, self.file)

    def add(self, count: int) -> None:
        """Counts bytes; a negative number subtracts bytes that must be fetched again.

        Raises:
            StoppedError: the download was paused or cancelled.
        """
        self._done += count
        if count < 0:
            self._samples.clear()
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            self.report()
        self.check()

    def check(self) -> None:
        """Checks the flags.

        Raises:
            StoppedError: the download was paused or cancelled.
        """
        if any(flag.is_set() for flag in self._flags):
            raise StoppedError

    def wait(self, seconds: float) -> None:
        """Waits that long, or until a flag is set.

        Raises:
            StoppedError: the download was paused or cancelled.
        """
        end = time.monotonic() + seconds
        self._samples.clear()
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, POLL_SECONDS))
        self.check()

    def report(self) -> None:
        now = self._reported = time.monotonic()
        self._samples.append((now, self._done))
        while now - self._samples[0][0] > SPEED_SECONDS:
            self._samples.popleft()
        first, at_first = self._samples[0]
        speed = (self._done - at_first) / (now - first) if now > first else 0.0
        if self._on_progress is not None:
            self._on_progress(DownloadProgress(self.stage, self.file, self._done, self._total, max(speed, 0.0)))
