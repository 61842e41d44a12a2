"""A board with its legend, in the place of a canvas of tokens."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.board.block_board import BlockBoard
from app.board.legend import BoardLegend
from app.canvas.heat import Heat
from app.design.fonts import px
from app.design.layouts import UNLIMITED, column_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4

LEGEND_WIDTH = 176  # pixels at 100 %, next to the board
LOW = 280  # pixels at 100 %; below this height a legend under the board is hidden, and tool tips say what it says


class BoardPane(QWidget):
    """A board as large as the space allows, with its legend next to it if there is room, else below or hidden."""

    def __init__(self, board: BlockBoard | None = None) -> None:
        super().__init__()
        self.board = BlockBoard() if board is None else board
        self.legend = BoardLegend()
        self.legend.set_running(True)
        self._is_heated = False  # if True, the legend is one long line
        margins = (SPACE_4, SPACE_1, SPACE_4, SPACE_1)
        self._layout = column_of((self.board, 100), self.legend, margins=margins, spacing=SPACE_2)
        self.setLayout(self._layout)

    def set_heat(self, heat: Heat | None) -> None:
        """Colours the cells by a figure and explains the colours; None shows only the states."""
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
        is_at_side = not self._is_heated and self.width() >= self.height() + px(LEGEND_WIDTH)
        self._layout.setDirection(QBoxLayout.Direction.LeftToRight if is_at_side else QBoxLayout.Direction.TopToBottom)
        self._layout.setStretch(1, 1 if is_at_side else 0)  # the legend has no preferred width
        self.legend.setVisible(is_at_side or self._is_heated or self.height() >= px(LOW))
        self.legend.setMinimumWidth(px(LEGEND_WIDTH) if is_at_side else 0)
        self.legend.setMaximumWidth(px(LEGEND_WIDTH) if is_at_side else UNLIMITED)
