"""Sends a race to the engine, and takes in what comes of it. Knows no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.context import AppContext
from app.state.race.lanes import LaneSpec
from app.state.race.running import RaceRun
from engine.pictures import Picture
from engine.service import RaceRequest, ServiceReply
from engine.text.message import message_of

REFRESH_MS = 30  # between two tellings that something has come


class Racer(QObject):
    """One race at a time. ``take`` is to be given all replies."""

    began = Signal(object)  # a RaceRun, before its first reply
    changed = Signal()  # something has come of it since
    ended = Signal(object)  # the RaceRun, which says how

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._run: RaceRun | None = None  # under way
        self._telling = QTimer(self)
        self._telling.setSingleShot(True)
        self._telling.setInterval(REFRESH_MS)
        self._telling.timeout.connect(self.changed)

    @property
    def run(self) -> RaceRun | None:
        """The race under way."""
        return self._run

    @property
    def is_busy(self) -> bool:
        return self._run is not None

    def race(
        self,
        prompt: str,
        lanes: Sequence[LaneSpec],
        seed: int,
        pictures: tuple[Picture, ...] = (),
        *,
        keep: bool = True,
    ) -> None:
        """Let two to four lanes answer a prompt; only while none does. ``keep``: their runs are stored."""
        assert self._run is None
        request = RaceRequest(
            (message_of(prompt, pictures),),
            tuple(lane.lane() for lane in lanes),
            seed,
            keep=keep,
            threads=self._context.preferences.threads,
            pictures=pictures,
        )
        self._run = run = RaceRun.of(request)
        self.began.emit(run)
        self._context.backend.race(request)
        self._context.busy_changed.emit()

    @Slot()
    def stop(self) -> None:
        """Stop all lanes within one denoising step."""
        if self._run is not None:
            self._context.backend.scheduler.stop(self._run.request)

    def take(self, replies: Sequence[ServiceReply]) -> None:
        """Take in what arrived; what is not of this race is left alone."""
        run = self._run
        if run is None:
            return
        mine = [reply for reply in replies if run.take(reply)]
        if run.is_over:
            self._run = None
            self._telling.stop()
            self.changed.emit()
            self.ended.emit(run)
        elif mine and not self._telling.isActive():
            self._telling.start()
