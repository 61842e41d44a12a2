"""One row of a table: its state and picture, its answers, and the canvas they were read from. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QVBoxLayout, QWidget

from app.decisions.one.answers import AnswerList
from app.decisions.one.strip import CanvasStrip
from app.design.controls import Hairline, label, scroller
from app.design.fonts import px
from app.pictures.row import PictureRow
from app.state.decisions.board import RowBoard
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr

HEIGHT = 224  # pixels at 100 %
NARROW = 640  # pixels at 100 %; below it the canvas stands under the answers
LONGEST_STATE = 2_000  # characters that are shown


class RowDetail(QWidget):
    """``strip`` is told what was read for the row."""

    def __init__(self) -> None:
        super().__init__()
        self.state = label("", wrap=True, selectable=True)
        self.pictures = PictureRow()
        self.answers = AnswerList()
        self.strip = CanvasStrip()
        self.strip.question_chosen.connect(self.strip.choose_question)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for part in (label(tr("Chosen row"), "section"), self.pictures, self.state, self.answers):
            column.addWidget(part)
        inside = QWidget()
        self._halves = QBoxLayout(QBoxLayout.Direction.LeftToRight, inside)
        self._halves.setContentsMargins(0, 8, 0, 0)
        self._halves.setSpacing(24)
        for half in (left, self.strip):
            self._halves.addWidget(half, 1, Qt.AlignmentFlag.AlignTop)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(Hairline())
        outer.addWidget(scroller(inside))

    def show_row(self, board: RowBoard, row: int) -> None:
        """Show a row, without a canvas."""
        outcome = board.outcomes[row]
        state = board.states[row]
        self.state.setText("\n".join(filter(None, (state.picture, state.text)))[:LONGEST_STATE])
        self.answers.show_answers(board.questions, board.answers(row), "" if outcome is None else outcome.problem)
        self.strip.show_reading(None)
        self.pictures.show_files(())

    def show_reading(self, reading: DecisionReading) -> None:
        """Show the canvas of the row, which is read again, and its picture."""
        self.strip.show_reading(reading)
        self.pictures.show_files(reading.runs[0].request.pictures)

    def fit(self, most: int) -> None:
        """As high as usual, or as there is room for, in pixels."""
        self.setFixedHeight(min(px(HEIGHT), most))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < px(NARROW)
        side = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._halves.setDirection(side)
