"""A board over its legend, in the place of a canvas of tokens."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.board.block_board import BlockBoard
from app.board.legend import BoardLegend
from app.canvas.heat import Heat
from app.design.tokens import SPACE_2, SPACE_4, Theme


class BoardPane(QWidget):
    """The board is as large as there is room for."""

    def __init__(self, board: BlockBoard | None = None) -> None:
        super().__init__()
        self.board = BlockBoard() if board is None else board
        self.legend = BoardLegend()
        self.legend.set_running(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        column.setSpacing(SPACE_2)
        column.addWidget(self.board, 1)
        column.addWidget(self.legend)

    def set_theme(self, theme: Theme) -> None:
        self.board.set_theme(theme)
        self.legend.set_theme(theme)

    def set_heat(self, heat: Heat | None) -> None:
        """Colour the cells by a figure, and say what the colours mean; None shows the states alone."""
        self.board.set_heat(heat)
        if heat is None:
            self.legend.set_running(True)
        else:
            self.legend.set_heat(heat)
