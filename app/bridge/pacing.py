"""Decides when replies are delivered: the frames of a run follow each other at a pace that can be watched.

The engine never waits for it, nor does a frame that comes late: only what is there too early is held.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.bridge.mailbox import Mailbox
from app.bridge.run_view import RunView
from app.state.run.pace import FULL_SPEED, Schedule, SpeedClock
from engine import CanvasCommitted, CanvasStarted, PrefixPinned, StepFinished
from engine.service import RaceEnded, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply

REVEAL_MS = 33  # between two looks at how much of a step is shown


class Pacing(QObject):
    """Delivers a mailbox's replies in order, a run with a view of its trace that ends where it is shown."""

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
        self._paced: set[str] = set()  # ids of queued and current runs
        self.is_computed = False  # a run that is watched has ended, and is only shown to its end
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.drain)

    @property
    def speed(self) -> float:
        """How many times as fast as usual blocks are shown; ``FULL_SPEED`` holds nothing."""
        return self._schedule.clock.speed

    def set_speed(self, speed: float, *, is_smooth: bool = True) -> None:
        """Take effect at once. Where it is not ``is_smooth``, all cells of a step change together."""
        self._is_smooth = is_smooth
        self._schedule.clock.speed = speed
        self.drain()

    @property
    def share(self) -> float:
        """The share of the latest step's accepted tokens that is to be shown now, 0 to 1."""
        return self._schedule.share if self._is_smooth and self._paced else 1.0

    @property
    def is_holding(self) -> bool:
        """Whether something that has arrived is not delivered yet."""
        return bool(self._held)

    def expect(self, request: RunRequest) -> None:
        """Announce a run that is watched. An infill is not paced: most of its blocks are those of its source."""
        if request.kind != "infill":
            self._paced.add(request.run_id)

    def skip(self, request: RunRequest) -> None:
        """Hold nothing of a run any more."""
        self._paced.discard(request.run_id)
        self.drain()

    @Slot()
    def drain(self) -> None:
        """Deliver what is due, and look again when more is."""
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
        is_computed = not self._paced.isdisjoint(ends)
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
        """Whether a reply is something to be watched; what is pinned comes with the step or the end behind it."""
        return (
            isinstance(reply, RunAdvanced)
            and reply.run_id in self._paced
            and isinstance(reply.event, CanvasStarted | StepFinished | PrefixPinned | CanvasCommitted)
        )

    def _show(self, reply: ServiceReply) -> ServiceReply:
        """Note that a reply is delivered now; returns it as it is delivered."""
        if self._is_frame(reply):
            self._schedule_frame(reply)
        match reply:
            case RunStarted(run_id, trace):
                self._views[run_id] = view = RunView(trace)
                return dataclasses.replace(reply, trace=view)
            case RunAdvanced(run_id) if run_id in self._views:
                self._views[run_id].advance()
            case RunEnded(run_id):
                self._paced.discard(run_id)
                if run_id in self._views:
                    self._views.pop(run_id).show_all()
            case RaceEnded():  # of its runs, those that had not ended are given up
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
        """How many more steps of the block on show are there, and whether its end is."""
        steps = 0
        for reply in self._held:
            match reply:
                case RunAdvanced(_, StepFinished()):
                    steps += 1
                case RunAdvanced(_, CanvasCommitted()):
                    return steps, True
        return steps, False
