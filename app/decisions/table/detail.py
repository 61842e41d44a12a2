"""One row of a table: its state and picture, its answers, and the canvas they were read from. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.decisions.one.answers import AnswerList
from app.decisions.one.strip import CanvasStrip
from app.design.controls import Hairline, label, scroller
from app.design.fonts import px
from app.design.tokens import Theme
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb
from app.state.chat.attachment import AttachedPicture
from app.state.decisions.board import RowBoard
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr
from engine.pictures import Picture

HEIGHT = 224  # pixels at 100 %
NARROW = 640  # pixels at 100 %; below it the canvas stands under the answers
THUMB_HEIGHT = 72
LONGEST_STATE = 2_000  # characters that are shown


class RowDetail(QWidget):
    """``strip`` is told what was read for the row."""

    def __init__(self) -> None:
        super().__init__()
        self.state = label("", wrap=True, selectable=True)
        self.thumb: PictureThumb | None = None
        self.answers = AnswerList()
        self.strip = CanvasStrip()
        self.strip.question_chosen.connect(self.strip.choose_question)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        self._state = QHBoxLayout()
        self._state.setSpacing(12)
        self._state.addWidget(self.state, 1)
        column.addWidget(label(tr("Chosen row"), "section"))
        column.addLayout(self._state)
        column.addWidget(self.answers)
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
        self._show_picture(None)

    def show_reading(self, reading: DecisionReading) -> None:
        """Show the canvas of the row, which is read again, and its picture."""
        self.strip.show_reading(reading)
        self._show_picture(next(iter(reading.runs[0].request.pictures), None))

    def _show_picture(self, picture: Picture | None) -> None:
        if self.thumb is not None:
            self._state.removeWidget(self.thumb)
            self.thumb.deleteLater()
        self.thumb = None
        if picture is not None:
            shown = AttachedPicture("", picture.digest, picture.width, picture.height)
            self.thumb = PictureThumb(shown, PictureSource(lambda *_: picture), THUMB_HEIGHT)
            self._state.insertWidget(0, self.thumb, 0, Qt.AlignmentFlag.AlignTop)

    def fit(self, most: int) -> None:
        """As high as usual, or as there is room for, in pixels."""
        self.setFixedHeight(min(px(HEIGHT), most))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < px(NARROW)
        side = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._halves.setDirection(side)

    def set_theme(self, theme: Theme) -> None:
        self.answers.set_theme(theme)
        self.strip.set_theme(theme)

    def set_reduced_motion(self, reduced: bool) -> None:
        self.strip.set_reduced_motion(reduced)
