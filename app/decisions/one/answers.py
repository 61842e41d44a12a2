"""A read-only list of questions with their answers. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.decisions import words
from app.decisions.one.bars import AnswerBars
from app.design.controls import label
from app.design.layouts import column_of
from app.state.decisions.drafts import QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import Question


class AnswerList(QWidget):
    """The list: each question with its bars, facts and warning."""

    chosen = Signal(int)  # index of an answer

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._questions: tuple[Question, ...] = ()
        self.bars: list[AnswerBars] = []
        self._parts: list[QWidget] = []
        self._column = column_of(margins=(0, 0, 8, 0), spacing=4)
        self.setLayout(self._column)

    def show_answers(self, questions: Sequence[Question], answers: Sequence[TypedAnswer], problem: str = "") -> None:
        """Shows questions with their answers, and ``problem``, which says why answers are missing."""
        self._clear()
        self._questions = tuple(questions)
        for place, question in enumerate(questions):
            bars = AnswerBars(QuestionDraft.from_question(question))
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
