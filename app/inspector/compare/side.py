"""One of two canvases beside each other: a run's frame under its name, with the cells that differ in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.board.pane import BoardPane
from app.canvas.accessibility import expose_cells
from app.design import themes
from app.design.controls import Elided, scroller
from app.design.fonts import canvas_font
from app.design.tokens import SPACE_1, SPACE_4, color
from app.inspector.canvas.page_cells import BoardCells, Cells, Marked
from app.state.run.canvas import BlockState, Mask
from app.state.run.replay import BlockRecord
from app.state.sudoku.placing import Placed, placed
from engine import Recording

CORNER = 5  # pixels of a mark's arms


class Bracketed(Marked):
    """A grid with some positions of its canvas in brackets."""

    def _paint_mark(self, painter: QPainter, rect: QRect) -> None:
        painter.setPen(QPen(color(themes.current().accent), 2))
        _bracket(painter, rect.adjusted(1, 1, -1, -1))


class MarkedCanvas(Bracketed, Cells):
    """A canvas of tokens with some in brackets."""


class MarkedBoard(Bracketed, BoardCells):
    """A board with some cells in brackets."""

    def cell_of(self, position: int) -> int:
        return BoardCells.cell_of(self, position)


def _bracket(painter: QPainter, rect: QRect) -> None:
    """Two opposite corners, so that it is told from every state by its shape."""
    arm = min(CORNER, rect.width() // 4)
    for x, y, way in ((rect.left(), rect.top(), arm), (rect.right(), rect.bottom(), -arm)):
        painter.drawLine(x, y, x + way, y)
        painter.drawLine(x, y, x, y + way)


class RunSide(QWidget):
    """A run's name, where it is, and its canvas: a board, or its tokens."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._trace: Recording | None = None
        self.title, self.where = Elided("setting"), Elided("caption")
        self.view = MarkedCanvas()
        self.view.setAccessibleName(name)
        self.view.set_still(True)  # two canvases that fade at once tell nothing
        expose_cells(self.view)
        self.board = MarkedBoard()
        self.pane = BoardPane(self.board)
        self.board.setAccessibleName(name)
        self.board.set_still(True)
        self.area = scroller(self.view, arrows=False)  # they are the page's
        self.area.setObjectName("canvas-scroll")
        names = QVBoxLayout()
        names.setContentsMargins(SPACE_4, SPACE_1, SPACE_4, SPACE_1)
        names.setSpacing(0)
        names.addWidget(self.title)
        names.addWidget(self.where)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(names)
        column.addWidget(self.area, 1)
        column.addWidget(self.pane, 1)
        self.show_board(None)

    def set_run(self, trace: Recording, title: str) -> None:
        """Whose canvases come: how its tokens are written, and what it is called."""
        self._trace = trace
        self.title.set_whole(title)
        self.view.set_piece(trace.piece, trace.is_special)
        self.view.frame_slots([slot.position for slot in trace.header.slots])

    def show_frame(self, block: BlockState | None, where: str, marks: Mask, *, calm: bool) -> None:
        """A canvas, in words which one, and (C,) its cells that differ."""
        self.view.set_calm(calm)
        self.view.set_block(block)
        self.view.set_marks(marks)
        self.board.set_block(block)
        self.board.set_marks(marks)
        self.where.set_whole(where)

    def placed(self, record: BlockRecord | None) -> Placed | None:
        """Where the block writes a Sudoku; None where it does not."""
        trace = self._trace
        return None if record is None or trace is None else placed(trace.prompt, record.snapshots[-1], trace.piece)

    def show_board(self, placed: Placed | None) -> None:
        """Show the canvas as a board; None shows its tokens."""
        if self._trace is not None:
            self.board.place(placed, self._trace.piece)
        self.area.setVisible(placed is None)
        self.pane.setVisible(placed is not None)

    def select(self, position: int) -> None:
        """What is selected in another view."""
        self.view.selected = position if position < self.view.grid.count else -1
        self.board.select_position(position)

    def point_at(self, position: int) -> None:
        """What is pointed at in another view."""
        self.view.hovered = position if position < self.view.grid.count else -1
        self.board.point_at(position)

    def fits(self, size: int, tokens: Sequence[int]) -> bool:
        """Take this size of text (on the type scale), wide enough for these tokens; says if all is seen at once."""
        self.view.set_font(canvas_font(size))
        self.view.reserve(tokens)
        room = self.area.viewport().size()
        return self.view.heightForWidth(room.width()) <= room.height()
