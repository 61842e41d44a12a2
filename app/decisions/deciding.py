"""Decides one state: makes the requests beside the window, runs them, and takes in their replies. Knows no widgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.context import AppContext
from app.state.decisions.reading import DecisionReading
from app.state.decisions.sheet import QuestionSheet
from app.system.i18n import tr
from engine import SafelightError
from engine.pictures import Picture
from engine.service import LoadedModel, RunRequest, ServiceReply, decision_requests


class StateDecider(QObject):
    """One decision at a time."""

    began = Signal(object)  # a DecisionReading, before its first reply
    changed = Signal()  # something has come of it
    ended = Signal(str, str)  # why it failed in a sentence, and details; empty where it did not

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._reading: DecisionReading | None = None  # under way
        self._keep = False
        self._making = Background(self)
        self._making.done.connect(self._run)
        self._making.failed.connect(self._fail)

    @property
    def is_busy(self) -> bool:
        """Whether a decision is being made."""
        return self._making.is_busy or self._reading is not None

    def decide(
        self,
        model: LoadedModel,
        state: str,
        sheet: QuestionSheet,
        pictures: Callable[[], Sequence[Picture]] = tuple,
        *,
        keep: bool = True,
    ) -> None:
        """Ask all questions about a state, and pictures, which are got beside the window; what is wrong is told by
        ``ended``."""
        image_tokens = self._context.values.image_tokens

        def make() -> tuple[RunRequest, ...]:
            return decision_requests(
                model,
                state,
                sheet.asked(),
                instructions=sheet.instructions.strip(),
                is_joint=sheet.is_joint,
                repeats=sheet.repeats,
                keep=keep,
                pictures=pictures(),
                image_tokens=image_tokens,
            )

        self._making.ask(make)

    @Slot()
    def stop(self) -> None:
        """Stop within one denoising step."""
        if self._reading is None:
            if self._making.is_busy:
                self._making.drop()
                self.ended.emit("", "")
            return
        self._context.backend.scheduler.stop(*(run.request for run in self._reading.runs))

    @Slot(object)
    def _run(self, requests: tuple[RunRequest, ...]) -> None:
        self._reading = reading = DecisionReading.of(requests)
        self.began.emit(reading)
        for request in requests:
            self._context.backend.run(request, is_watched=False)

    @Slot(object)
    def _fail(self, error: Exception) -> None:
        if not isinstance(error, SafelightError):
            raise error
        self.ended.emit(tr(str(error)), "")

    def take(self, replies: list[ServiceReply]) -> None:
        """Take in what arrived; what is of no run of this decision is left alone."""
        reading = self._reading
        if reading is None:
            return
        mine = [reply for reply in replies if reading.take(reply) is not None]
        if not mine:
            return
        if reading.is_over:
            self._reading = None
        self.changed.emit()
        if reading.is_over:
            problem, details = reading.problem
            stopped = tr("Stopped before the end.") if reading.was_stopped else ""
            self.ended.emit(tr(problem) if problem else stopped, details)
