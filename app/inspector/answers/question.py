"""One question of a decision and its answer. Independent of the player."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QEnterEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.design.controls import label, restyle
from app.design.layouts import column_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_3
from app.inspector.answers.bars import ReadBars
from app.state.run.answers import answer_words, fact_words
from app.system.i18n import tr
from engine.tasks.decisions.answers import LabelRead, TypedAnswer
from engine.tasks.decisions.questions import Question, YesNo
from engine.tasks.decisions.wording import Labels


class ReadAnswer(QFrame):
    """A question with its answer, highlighted while its slot is hovered. A press selects the slot."""

    pointed = Signal(bool)
    pressed = Signal()

    def __init__(self, number: int, question: Question, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "read-answer")
        labels = Labels().of_question(question)  # not shown for yes and no: the names suffice
        pairs = zip(labels, (option.name for option in question.options), strict=True)
        names = [name if isinstance(question, YesNo) else f"{sign}  {name}" for sign, name in pairs]
        self.title = label(question.instructions, "setting", wrap=True, selectable=True)
        self.said = label("", "figure", wrap=True, selectable=True)
        self.bars = ReadBars(names)
        self.facts = label("", "caption", wrap=True, selectable=True)
        self._name = tr("Question {number}", number=number)
        if question.name:
            self._name = tr("{question}, {name}", question=self._name, name=question.name)
        self.setAccessibleName(self._name)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setLayout(
            column_of(
                label(self._name, "caption", wrap=True),
                self.title,
                self.said,
                self.bars,
                self.facts,
                margins=(SPACE_3, SPACE_2, SPACE_3, SPACE_3),
                spacing=SPACE_1,
            )
        )
        self.show_reads(None, ())

    def set_lit(self, lit: bool) -> None:
        """Highlights the question if its slot is hovered or selected."""
        if bool(self.property("lit")) != lit:
            restyle(self, "lit", lit)

    def show_reads(self, answer: TypedAnswer | None, reads: Sequence[LabelRead]) -> None:
        """Shows the answer after the reads so far; None before the first."""
        self.bars.show_answer(answer, reads)
        self.said.setText(tr("Not read yet") if answer is None else answer_words(answer))
        self.facts.setText("" if answer is None else fact_words(answer, reads))
        self.facts.setVisible(answer is not None)
        self.setAccessibleDescription(" ".join(filter(None, (self.said.text(), self.facts.text()))))

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.pointed.emit(True)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointed.emit(False)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.pressed.emit()
        else:
            super().mousePressEvent(event)
