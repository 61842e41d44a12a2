"""Decides one state: makes the requests in a thread, runs them, and receives their replies. Has no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.context import AppContext
from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr
from engine.service import DecisionRun, LoadedModel, ServiceReply, decision_requests

REPEATS = 3  # further reads of an answer in doubt


class StateDecider(QObject):
    """Makes one decision at a time."""

    began = Signal(object)  # a DecisionReading, before its first reply
    changed = Signal()  # new replies
    ended = Signal(str)  # why it failed, as a sentence; empty if it did not

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._reading: DecisionReading | None = None  # of the running decision
        self._making = Background(self, self._run, self.ended.emit)

    @property
    def is_busy(self) -> bool:
        """True while a decision is being prepared or running."""
        return self._making.is_busy or self._reading is not None

    def decide(self, model: LoadedModel, state: str, drafts: Sequence[QuestionDraft], *, is_joint: bool) -> None:
        """Asks all questions about a state. A problem is reported by ``ended``."""
        questions = [draft.question(f"q{number}") for number, draft in enumerate(drafts, 1)]
        self._making.ask(
            lambda: decision_requests(model, state, questions, is_joint=is_joint, repeats=REPEATS, keep=True)
        )

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        if self._reading is None:
            if self._making.is_busy:
                self._making.drop()
                self.ended.emit("")
            return
        self._context.backend.scheduler.stop(*(run.request for run in self._reading.runs))

    @Slot(object)
    def _run(self, requests: tuple[DecisionRun, ...]) -> None:
        self._reading = reading = DecisionReading.from_requests(requests)
        self.began.emit(reading)
        for request in requests:
            self._context.backend.run(request, is_watched=False)

    def take(self, replies: list[ServiceReply]) -> None:
        """Processes replies of the engine and ignores those of other runs."""
        reading = self._reading
        if reading is None:
            return
        if not [reply for reply in replies if reading.take(reply)]:
            return
        self.changed.emit()
        if reading.is_over:
            self._reading = None
            stopped = tr("Stopped before the end.") if reading.was_stopped else ""
            self.ended.emit(tr(reading.problem) if reading.problem else stopped)
