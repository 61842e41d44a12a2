"""One of two canvases side by side: a run's name and its current frame, with brackets on the cells that differ."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.canvas.accessibility import expose_cells
from app.design import themes
from app.design.controls import Elided, introduce, scroller
from app.design.fonts import canvas_font
from app.design.layouts import boxed, column_of
from app.design.tokens import SPACE_1, SPACE_4, color
from app.inspector.canvas.page_cells import SpannedBoard, SpannedCanvas
from app.player.player import Player
from app.state.run.canvas import BlockState, Mask
from app.state.run.replay import BlockRecord
from app.state.sudoku.placing import Placed, placed
from engine import Recording

CORNER = 5  # length of a bracket's arms in pixels


def bracket(painter: QPainter, rect: QRect) -> None:
    """Draws two opposite corners of a cell, a shape that no cell state has."""
    painter.setPen(QPen(color(themes.current().accent), 2))
    rect, arm = rect.adjusted(1, 1, -1, -1), min(CORNER, (rect.width() - 2) // 4)
    for x, y, length in ((rect.left(), rect.top(), arm), (rect.right(), rect.bottom(), -arm)):
        painter.drawLine(x, y, x + length, y)
        painter.drawLine(x, y, x, y + length)


class RunSide(QWidget):
    """A run's name, its current frame in words, and its canvas as a board or as tokens."""

    def __init__(self, name: str, player: Player) -> None:
        super().__init__()
        self._player = player
        self._trace: Recording | None = None
        self.title, self.where = Elided("setting"), Elided("caption")
        self.view = introduce(SpannedCanvas(player, bracket), name)
        self.view.set_still(True)  # two canvases that fade at once are confusing
        expose_cells(self.view)
        self.board = introduce(SpannedBoard(player, bracket), name)
        self.board.set_still(True)
        self.area = introduce(scroller(self.view, arrows=False), id="canvas-scroll")  # the page handles the arrow keys
        names = column_of(self.title, self.where, margins=(SPACE_4, SPACE_1, SPACE_4, SPACE_1), spacing=0)
        self.pane = boxed(column_of(self.board, margins=(SPACE_4, SPACE_1, SPACE_4, SPACE_1)))
        self.setLayout(column_of(names, (self.area, 1), (self.pane, 1), spacing=0))
        self.show_board(None)

    def set_run(self, trace: Recording, title: str) -> None:
        """Sets the run whose canvases are shown, and its title."""
        self._trace = trace
        self.title.set_whole(title)
        self.view.set_piece(trace.piece, trace.is_special)
        self.view.frame_slots([slot.position for slot in trace.header.slots])

    def show_frame(self, block: BlockState | None, where: str, marks: Mask, *, calm: bool) -> None:
        """Shows a canvas with its frame in words; ``marks`` (C,) are the cells that differ."""
        self.view.set_calm(calm)
        self.view.set_block(block)
        self.view.set_marks(marks)
        self.board.set_block(block)
        self.board.set_marks(marks)
        for grid in (self.view, self.board):
            grid.select_position(self._player.selection)
        self.where.set_whole(where)

    def placed(self, record: BlockRecord | None) -> Placed | None:
        """Returns the position of the Sudoku in the block; None if it has none."""
        trace = self._trace
        return None if record is None or trace is None else placed(trace.prompt, record.snapshots[-1], trace.piece)

    def show_board(self, placed: Placed | None) -> None:
        """Shows the canvas as a board; None shows its tokens."""
        if self._trace is not None:
            self.board.place(placed, self._trace.piece)
        self.area.setVisible(placed is None)
        self.pane.setVisible(placed is not None)

    def fits(self, size: int, tokens: Sequence[int]) -> bool:
        """Sets the size of the cells' text (pixels at 100 %), with cells wide enough for these tokens.

        Returns True if the whole canvas is visible at that size.
        """
        self.view.set_font(canvas_font(size))
        self.view.reserve(tokens)
        room = self.area.viewport().size()
        return self.view.heightForWidth(room.width()) <= room.height()
