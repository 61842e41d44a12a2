"""The time for which each frame of a run is shown: a block takes two to four seconds for any number of steps. No Qt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from app.state.run.replay import NOISE

FULL_SPEED = math.inf
"""The speed without waiting: a frame is shown as soon as it is computed."""
NOISE_SECONDS = 0.6  # a block's noise, before its first step
STEP_SECONDS = 0.1  # a step, if the block stays within the next two
SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 4.0
USUAL_STEPS = 12  # expected of the first block
LATE_SECONDS = 0.05  # a delay by the timer that does not postpone the next frame


def block_seconds(steps: int) -> float:
    """Returns the seconds at 1× from a block's noise to its commit."""
    return min(max(NOISE_SECONDS + steps * STEP_SECONDS, SHORTEST_SECONDS), LONGEST_SECONDS)


def frame_seconds(step: int, steps: int) -> float:
    """Returns the seconds at 1× of one frame: ``NOISE``, a step, or the commit (``step`` = ``steps``), which has 0."""
    if step == NOISE:
        return NOISE_SECONDS
    return (block_seconds(steps) - NOISE_SECONDS) / steps if step < steps else 0.0


class SpeedClock:
    """A clock that runs ``speed`` times as fast as ``now``. It stands still at full speed, where no frame waits."""

    def __init__(self, now: Callable[[], float] = time.monotonic, speed: float = 1.0) -> None:
        self._now = now
        self._speed = speed
        self._read = now()
        self._time = 0.0

    @property
    def time(self) -> float:
        """Seconds of this clock since it was made."""
        now = self._now()
        if self._speed != FULL_SPEED:
            self._time += (now - self._read) * self._speed
        self._read = now
        return self._time

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        _ = self.time  # adds the time until now at the old speed
        self._speed = speed


class Schedule:
    """Decides when the next frame of a running run is due; steps arrive as they are computed.

    A block ends ``block_seconds`` after its noise, and its steps share that time evenly. Until the number of steps is
    known, it is expected to be that of the block before. A step that arrives late is due at once.
    """

    def __init__(self, clock: SpeedClock) -> None:
        self.clock = clock
        self._due = self._shown = self._begun = 0.0  # the clock's times: of the next frame, this one, the block's noise
        self._steps = 0  # shown of the block
        self._usual = USUAL_STEPS

    @property
    def is_due(self) -> bool:
        """True if the next frame may be shown."""
        return self.clock.speed == FULL_SPEED or self.clock.time >= self._due

    @property
    def wait_seconds(self) -> float:
        """Seconds until the next frame may be shown; 0 if it may be shown now."""
        return 0.0 if self.is_due else (self._due - self.clock.time) / self.clock.speed

    @property
    def share(self) -> float:
        """The part of the latest step's time that has passed, 0 to 1."""
        length = self._due - self._shown
        if self.clock.speed == FULL_SPEED or length <= 0:
            return 1.0
        return min(1.0, max(0.0, (self.clock.time - self._shown) / length))

    def begin(self) -> None:
        """Notes that a block's noise is shown now."""
        self._begun = self.clock.time
        self._shown = self._due = self._begun + NOISE_SECONDS  # noise appears all at once
        self._steps = 0

    def step(self, ahead: int, is_whole: bool) -> None:
        """Notes that a block's next step is shown now.

        ``ahead`` more steps of the block have arrived; with ``is_whole`` they are all that remain.
        """
        now = self.clock.time
        self._shown = self._due if now - self._due < LATE_SECONDS else now
        known = self._steps + 1 + ahead
        steps = known if is_whole else max(known + 1, self._usual)
        left = self._begun + block_seconds(steps) - self._shown
        self._due = self._shown + max(0.0, left) / (steps - self._steps)
        self._steps += 1

    def end(self) -> None:
        """Notes that a block's commit is shown now."""
        self._usual = self._steps or USUAL_STEPS
        self._shown = self._due = self.clock.time
