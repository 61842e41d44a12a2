"""The clock that replays all lanes of a finished race together, in the engine's seconds.

The lanes took turns in the engine; here they play in parallel, each by its own seconds. Has no widgets.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.system.timers import every

TICK_MS = 33  # between two frames while it plays
SHORTEST_SECONDS, LONGEST_SECONDS = 6.0, 30.0  # bounds of the time that a whole race plays


class RaceClock(QObject):
    """Holds a time within the race, and plays it. Without lanes it stays at 0."""

    moved = Signal()
    playing_changed = Signal(bool)

    def __init__(self, parent: QObject | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._now = now
        self._times: list[list[float]] = []  # seconds of each frame, by lane
        self.seconds = 0.0  # the current time, in the engine's seconds
        self._seen = 0.0  # time of the last tick, by ``now``
        self._timer = every(self, self._tick, TICK_MS)

    def open(self, times: Sequence[Sequence[float]]) -> None:
        """Sets the seconds of each lane's frames, and goes to the end."""
        self.pause()
        self._times = [list(one) for one in times]
        self.go(self.end)

    @property
    def end(self) -> float:
        """The total seconds of the slowest lane."""
        return max((one[-1] for one in self._times if one), default=0.0)

    @property
    def is_at_end(self) -> bool:
        return self.seconds >= self.end

    @property
    def rate(self) -> float:
        """Seconds of the engine for each second of playing."""
        return self.end / min(max(self.end, SHORTEST_SECONDS), LONGEST_SECONDS)

    def place(self, lane: int) -> int:
        """Returns the index of a lane's current frame; -1 if the lane has none."""
        times = self._times[lane]
        return max(0, bisect.bisect_right(times, self.seconds) - 1) if times else -1

    def go(self, seconds: float) -> None:
        """Goes to a time, clamped to the race."""
        self.seconds = max(0.0, min(seconds, self.end))
        self.moved.emit()

    def step(self, by: int) -> None:
        """Goes to the next time at which any lane has a new frame (1), or to the previous one (-1)."""
        self.pause()
        moments = sorted({one for times in self._times for one in times})
        if by > 0:
            place = bisect.bisect_right(moments, self.seconds)
            self.go(moments[place] if place < len(moments) else self.end)
        else:
            place = bisect.bisect_left(moments, self.seconds) - 1
            self.go(moments[place] if place >= 0 else 0.0)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @Slot()
    def toggle(self) -> None:
        """Plays or pauses; at the end it plays from the beginning."""
        if self.is_playing:
            self.pause()
        elif self.end > 0:
            if self.is_at_end:
                self.go(0.0)
            self._seen = self._now()
            self._timer.start()
            self.playing_changed.emit(True)

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.playing_changed.emit(False)

    @Slot()
    def _tick(self) -> None:
        now = self._now()
        passed, self._seen = now - self._seen, now
        self.go(self.seconds + passed * self.rate)
        if self.is_at_end:
            self.pause()
