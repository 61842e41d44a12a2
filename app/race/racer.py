"""Sends a race to the engine and receives its replies. Has no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext
from app.state.race.lanes import LaneSpec
from app.state.race.running import RaceRun
from app.system.timers import later
from engine.pictures import Picture
from engine.service import RaceRequest, ServiceReply
from engine.text.message import message_of

REFRESH_MS = 30  # at least, between two ``changed`` signals


class Racer(QObject):
    """Runs one race at a time. ``take`` must be called with every reply of the engine."""

    began = Signal(object)  # a RaceRun, before its first reply
    changed = Signal()  # new replies, at most once per ``REFRESH_MS``
    ended = Signal(object)  # the RaceRun, with its outcome

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.run: RaceRun | None = None  # the running race
        self._refresh_timer = later(self, self.changed, REFRESH_MS)

    @property
    def is_busy(self) -> bool:
        return self.run is not None

    def race(
        self,
        prompt: str,
        lanes: Sequence[LaneSpec],
        seed: int,
        pictures: tuple[Picture, ...],
    ) -> None:
        """Starts a race of two to four lanes, whose runs are stored; only while none is running."""
        assert self.run is None
        request = RaceRequest(
            (message_of(prompt, pictures),),
            tuple(lane.lane() for lane in lanes),
            seed,
            keep=True,
            threads=self._context.preferences.threads,
            pictures=pictures,
        )
        self.run = run = RaceRun.from_request(request)
        self.began.emit(run)
        self._context.backend.race(request)
        self._context.busy_changed.emit()

    @Slot()
    def stop(self) -> None:
        """Stops all lanes within one denoising step."""
        if self.run is not None:
            self._context.backend.scheduler.stop(self.run.request)

    def take(self, replies: Sequence[ServiceReply]) -> None:
        """Processes replies of the engine and ignores those of other runs."""
        run = self.run
        if run is None:
            return
        mine = [reply for reply in replies if run.take(reply)]
        if run.is_over:
            self.run = None
            self._refresh_timer.stop()
            self.changed.emit()
            self.ended.emit(run)
        elif mine and not self._refresh_timer.isActive():
            self._refresh_timer.start()
