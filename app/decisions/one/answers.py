"""Answers under each other, each with its question, to be looked at alone. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.decisions import words
from app.decisions.one.bars import AnswerBars
from app.design.controls import label
from app.state.decisions.drafts import QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import Question


class AnswerList(QWidget):
    """What was asked, the bars, and how sure each answer is."""

    chosen = Signal(int)  # an answer, by its place

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._questions: tuple[Question, ...] = ()
        self.bars: list[AnswerBars] = []
        self._parts: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 8, 0)
        self._column.setSpacing(4)

    def show_answers(self, questions: Sequence[Question], answers: Sequence[TypedAnswer], problem: str = "") -> None:
        """Show a row's answers, or why there are none."""
        self._clear()
        self._questions = tuple(questions)
        for place, question in enumerate(questions):
            bars = AnswerBars(QuestionDraft.of(question))
            self.bars.append(bars)
            answer = answers[place] if place < len(answers) else None
            bars.set_answer(answer)
            self._add(label(question.instructions, "asked", wrap=True))
            self._add(bars)
            for role, text in (("caption", words.facts), ("remark", words.warning)):
                if answer is not None and text(answer):
                    self._add(label(text(answer), role, wrap=True))
            self._column.addSpacing(8)
        if problem:
            self._add(label(tr(problem), "error", wrap=True))
        self._column.addStretch(1)

    def _add(self, part: QWidget) -> None:
        self._parts.append(part)
        self._column.addWidget(part)

    def _clear(self) -> None:
        while self._column.count():
            self._column.takeAt(0)
        for part in self._parts:
            part.hide()
            part.deleteLater()
        self._parts, self.bars = [], []
