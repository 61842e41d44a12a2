"""One clock for all lanes of a race that is over: whose frame is on show at which of the engine's seconds.

Lanes have taken turns; here they run beside each other, each by its own seconds. Knows no widgets.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

TICK_MS = 33  # between two looks at what is due while it plays
SHORTEST_SECONDS, LONGEST_SECONDS = 6.0, 30.0  # that a race takes to be watched, from its start to its end


class RaceClock(QObject):
    """Without lanes nothing moves."""

    moved = Signal()
    playing_changed = Signal(bool)

    def __init__(self, parent: QObject | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._now = now
        self._times: list[list[float]] = []  # of each lane, the seconds at which its frames came
        self.seconds = 0.0  # of the engine
        self._seen = 0.0  # when it was last looked at
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)

    def open(self, times: Sequence[Sequence[float]]) -> None:
        """Take the frames of each lane, by the seconds at which they came; the end is on show."""
        self.pause()
        self._times = [list(one) for one in times]
        self.go(self.end)

    @property
    def end(self) -> float:
        """The seconds of the slowest lane."""
        return max((one[-1] for one in self._times if one), default=0.0)

    @property
    def is_at_end(self) -> bool:
        return self.seconds >= self.end

    @property
    def rate(self) -> float:
        """Seconds of the engine in a second of playing."""
        return self.end / min(max(self.end, SHORTEST_SECONDS), LONGEST_SECONDS)

    def place(self, lane: int) -> int:
        """The frame of a lane that is on show now, from 0; -1 where it has none."""
        times = self._times[lane]
        return max(0, bisect.bisect_right(times, self.seconds) - 1) if times else -1

    # ---------------------------------------------------------------- going about

    def go(self, seconds: float) -> None:
        """Show this moment; beyond the ends takes the end."""
        self.seconds = max(0.0, min(seconds, self.end))
        self.moved.emit()

    def step(self, by: int) -> None:
        """Go on to the next moment at which a lane has another frame (1), or back to the one before (-1)."""
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
        """Play or pause; at the end from the beginning."""
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
