"""A board with its legend, in the place of a canvas of tokens."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.board.block_board import BlockBoard
from app.board.legend import BoardLegend
from app.canvas.heat import Heat
from app.design.fonts import px
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4

QWIDGETSIZE_MAX = 2**24 - 1  # Qt's word for no limit
LEGEND_WIDTH = 176  # pixels at 100 %, beside the board


class BoardPane(QWidget):
    """The board is as large as there is room for: its legend is beside it where there is room."""

    def __init__(self, board: BlockBoard | None = None) -> None:
        super().__init__()
        self.board = BlockBoard() if board is None else board
        self.legend = BoardLegend()
        self.legend.set_running(True)
        self._is_heated = False  # then the legend is one long line
        self._layout = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._layout.setContentsMargins(SPACE_4, SPACE_1, SPACE_4, SPACE_1)
        self._layout.setSpacing(SPACE_2)
        self._layout.addWidget(self.board, 100)
        self._layout.addWidget(self.legend)

    def set_heat(self, heat: Heat | None) -> None:
        """Colour the cells by a figure, and say what the colours mean; None shows the states alone."""
        self.board.set_heat(heat)
        if heat is None:
            self.legend.set_running(True)
        else:
            self.legend.set_heat(heat)
        if self._is_heated != (heat is not None):
            self._is_heated = heat is not None
            self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        beside = not self._is_heated and self.width() >= self.height() + px(LEGEND_WIDTH)
        self._layout.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)
        self._layout.setStretch(1, 1 if beside else 0)  # it has no width of its own
        self.legend.setMinimumWidth(px(LEGEND_WIDTH) if beside else 0)
        self.legend.setMaximumWidth(px(LEGEND_WIDTH) if beside else QWIDGETSIZE_MAX)
