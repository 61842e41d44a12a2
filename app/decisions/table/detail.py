"""The details of one row: its state and picture, its answers, and the canvas they were read from. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.decisions import words
from app.decisions.one.bars import AnswerBars
from app.decisions.one.strip import CanvasStrip
from app.design.controls import Hairline, label, scroller
from app.design.fonts import px
from app.design.layouts import boxed, column_of, row_of
from app.pictures.row import PictureRow
from app.state.decisions.board import RowBoard
from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.reading import DecisionReading
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


HEIGHT = 224  # pixels at 100 %
NARROW = 640  # pixels at 100 %; below it the canvas is under the answers
LONGEST_STATE = 2_000  # characters


class RowDetail(QWidget):
    """The details of the chosen row; ``strip`` shows its canvases."""

    def __init__(self) -> None:
        super().__init__()
        self.state = label("", wrap=True, selectable=True)
        self.pictures = PictureRow()
        self.answers = AnswerList()
        self.strip = CanvasStrip()
        self.strip.question_chosen.connect(self.strip.choose_question)
        left = boxed(column_of(label(tr("Chosen row"), "section"), self.pictures, self.state, self.answers, spacing=8))
        halves = ((half, 1, Qt.AlignmentFlag.AlignTop) for half in (left, self.strip))
        self._halves = row_of(*halves, margins=(0, 8, 0, 0), spacing=24)
        self.setLayout(column_of(Hairline(), scroller(boxed(self._halves))))

    def show_row(self, board: RowBoard, row: int) -> None:
        """Shows a row, without a canvas."""
        outcome = board.outcomes[row]
        state = board.states[row]
        self.state.setText("\n".join(filter(None, (state.picture, state.text)))[:LONGEST_STATE])
        self.answers.show_answers(board.questions, board.answers(row), "" if outcome is None else outcome.problem)
        self.strip.show_reading(None)
        self.pictures.show_files(())

    def show_reading(self, reading: DecisionReading) -> None:
        """Shows the canvas and the picture of the row, from its repeated run."""
        self.strip.show_reading(reading)
        self.pictures.show_files(reading.runs[0].request.pictures)

    def fit(self, most: int) -> None:
        """Sets the usual height, or ``most`` pixels if that is less."""
        self.setFixedHeight(min(px(HEIGHT), most))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < px(NARROW)
        side = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._halves.setDirection(side)
