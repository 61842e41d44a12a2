"""Decides when replies are delivered, so that the frames of a run follow each other at a readable pace.

Frames that arrive too early are held. The engine does not wait for them, and a late frame is delivered at once. Text
that is written from left to right is not held: people read it as it comes.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.mailbox import Mailbox
from app.bridge.run_view import RunView
from app.state.run.pace import FULL_SPEED, Schedule, SpeedClock
from app.system.timers import later
from engine import CanvasCommitted, CanvasStarted, PrefixPinned, StepFinished
from engine.service import InfillRun, RaceEnded, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply

REVEAL_MS = 33  # between two updates of a step that is shown in part


class Pacing(QObject):
    """Delivers a mailbox's replies in order. A run gets a view of its trace that ends at the delivered events."""

    released = Signal(object)  # list[ServiceReply]
    revealed = Signal(float)  # the ``share`` of the latest step that is shown now
    computed = Signal()  # ``is_computed`` has changed

    def __init__(
        self,
        mailbox: Mailbox[ServiceReply],
        parent: QObject | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._mailbox = mailbox
        self._schedule = Schedule(SpeedClock(now, FULL_SPEED))
        self._is_smooth = True
        self._held: deque[ServiceReply] = deque()  # taken from the mailbox, not delivered yet
        self._views: dict[str, RunView] = {}  # of runs that have begun, by id
        self._paced: dict[str, bool] = {}  # ids of queued and current runs; True if their masks hold growing text
        self._is_growing = False  # the block that is shown holds growing text
        self.is_computed = False  # the watched run has ended in the engine, and the rest is still being shown
        self._timer = later(self, self.drain)

    def set_speed(self, speed: float, *, is_smooth: bool = True) -> None:
        """Sets the speed at once, 1 is normal; ``FULL_SPEED`` does not hold replies.

        Without ``is_smooth``, all cells of a step change together.
        """
        self._is_smooth = is_smooth
        self._schedule.clock.speed = speed
        self.drain()

    @property
    def share(self) -> float:
        """The share of the latest step's accepted tokens to show now, 0 to 1."""
        return self._schedule.share if self._is_smooth and self._paced and not self._is_growing else 1.0

    def expect(self, request: RunRequest) -> None:
        """Announces a watched run. An infill is not paced: most of its blocks are copies from its source."""
        if not isinstance(request, InfillRun):
            self._paced[request.run_id] = request.config.grows

    def skip(self, request: RunRequest) -> None:
        """Stops holding the replies of a run."""
        self._paced.pop(request.run_id, None)
        self.drain()

    @Slot()
    def drain(self) -> None:
        """Delivers the replies that are due, and sets the timer for the next ones."""
        self._timer.stop()
        self._held.extend(self._mailbox.drain())
        due: list[ServiceReply] = []
        while self._held and self._is_due(self._held[0]):
            due.append(self._show(self._held.popleft()))
        if due:
            self.released.emit(due)
        else:
            self.revealed.emit(self.share)
        self._note_end()
        self._look_again()

    def _note_end(self) -> None:
        ends = (reply.run_id for reply in self._held if isinstance(reply, RunEnded))
        is_computed = any(run_id in self._paced for run_id in ends)
        if is_computed != self.is_computed:
            self.is_computed = is_computed
            self.computed.emit()

    def _look_again(self) -> None:
        waits = [self._schedule.wait_seconds * 1000] if self._held else []
        if self.share < 1.0:
            waits.append(REVEAL_MS)
        if waits and not self._timer.isActive():
            self._timer.start(max(1, math.ceil(min(waits))))

    def _is_due(self, reply: ServiceReply) -> bool:
        return not self._is_frame(reply) or self._schedule.is_due

    def _is_frame(self, reply: ServiceReply) -> bool:
        """True if a reply is paced. Pins wait like frames, and are shown with the step or commit after them."""
        if not isinstance(reply, RunAdvanced) or reply.run_id not in self._paced:
            return False
        if isinstance(reply.event, CanvasStarted):
            return not self._grows(reply.run_id, reply.event)
        return isinstance(reply.event, StepFinished | PrefixPinned | CanvasCommitted) and not self._is_growing

    def _grows(self, run_id: str, event: CanvasStarted) -> bool:
        return event.filler is not None and self._paced.get(run_id, False)

    def _show(self, reply: ServiceReply) -> ServiceReply:
        """Updates the schedule and the views for a reply, and returns the reply to deliver."""
        if self._is_frame(reply):
            self._schedule_frame(reply)
        match reply:
            case RunStarted(run_id, trace):
                self._views[run_id] = view = RunView(trace)
                return dataclasses.replace(reply, trace=view)
            case RunAdvanced(run_id, event):
                if isinstance(event, CanvasStarted) and run_id in self._paced:
                    self._is_growing = self._grows(run_id, event)
                if run_id in self._views:
                    self._views[run_id].advance()
            case RunEnded(run_id):
                self._paced.pop(run_id, None)
                if run_id in self._views:
                    self._views.pop(run_id).show_all()
            case RaceEnded():  # runs of the race that have not ended are abandoned
                for view in self._views.values():
                    view.show_all()
                self._views.clear()
        return reply

    def _schedule_frame(self, reply: ServiceReply) -> None:
        match reply:
            case RunAdvanced(_, CanvasStarted()):
                self._schedule.begin()
            case RunAdvanced(_, StepFinished()):
                self._schedule.step(*self._ahead())
            case RunAdvanced(_, CanvasCommitted()):
                self._schedule.end()

    def _ahead(self) -> tuple[int, bool]:
        """Returns the number of held steps of the shown block, and True if its commit is held, too."""
        steps = 0
        for reply in self._held:
            match reply:
                case RunAdvanced(_, StepFinished()):
                    steps += 1
                case RunAdvanced(_, CanvasCommitted()):
                    return steps, True
        return steps, False
