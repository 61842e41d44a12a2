"""The board of an answer that is a Sudoku: while it develops, and settled with the verdict under it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.board.block_board import BlockBoard
from app.board.geometry import MARGIN
from app.board.legend import BoardLegend
from app.canvas.view import CanvasView
from app.chat.prose.widget import PAD
from app.design import themes
from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.state.run.canvas import BlockState
from app.state.sudoku.placing import answered, placed
from app.state.sudoku.solve_frame import settled
from app.system.i18n import tr

CELL, LEAST_CELL = 36, 24  # pixels at 100 %
AROUND = 430  # pixels of a window's height that are not the board's
LEAST_LEGEND = 120


class AnswerBoard(QWidget):
    """``is_on`` while what it was shown last is a Sudoku; not to be seen otherwise, and empty until it first is."""

    rebuilt = Signal()  # other controls than before

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False
        self.is_alone = False  # the settled answer says nothing but the grid
        self._is_built = False  # few answers are Sudokus
        self.hide()

    def _build(self) -> None:
        if self._is_built:
            return
        self._is_built = True
        self.board = BlockBoard()
        self.board.setAccessibleName(tr("Board of the answer"))
        self.legend = BoardLegend()
        self.legend.set_running(True)
        self.verdict = label("", "verdict", wrap=True, selectable=True)
        self.verdict.setAccessibleName(tr("Result"))
        row = row_of(self.board, (self.legend, 100), STRETCH, spacing=16)
        under = column_of(self.verdict, margins=(MARGIN, 0, 0, 0))
        self.setLayout(column_of(row, under, margins=(PAD - MARGIN, 0, PAD, 0), spacing=0))
        self._take_text_size()
        themes.changed.connect(self._take_text_size)
        self.rebuilt.emit()

    def tab_stops(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        return [self.board, self.verdict] if self._is_built else []

    @Slot()
    def _take_text_size(self) -> None:
        self._fit_board()
        self.verdict.setMinimumHeight(px(24))  # of its line, which comes without a jump

    # ---------------------------------------------------------------- what is shown

    def show_block(self, prompt: str, block: BlockState, piece: Callable[[int], str]) -> None:
        """Show a canvas of the answer, or how it stands now."""
        found = placed(prompt, block, piece)
        self.is_on = found is not None
        if found is not None:
            self._build()
            self.is_alone |= not block.committed
            self.board.place(found, piece)
            self.board.set_block(block)
            self._judge()

    def show_text(self, prompt: str, text: str) -> None:
        """Show the answer as it reads in the end."""
        found = answered(prompt, text)
        self.is_on, self.is_alone = found is not None, found is not None and found.grid.is_alone
        if found is None:
            return
        self._build()
        here = self.board.frame
        if here is None or (here.puzzle, here.answer) != (found.puzzle, found.grid.answer) or not here.committed:
            self.board.set_frame(settled(found.puzzle, found.grid.answer))
        self._judge()

    def _judge(self) -> None:
        frame = self.board.frame
        said = None if frame is None else frame.verdict
        self.verdict.setText("" if said is None else said.text)
        self._fit_legend()

    # ---------------------------------------------------------------- size

    def _fit_board(self) -> None:
        """Of one size, but in a low window smaller, so that all of it is seen while it develops."""
        cell, window = px(CELL), self.window()
        if window is not self:  # it is in its place
            cell = min(cell, max((window.height() - px(AROUND)) // 9, px(LEAST_CELL)))
        self.board.setFixedSize(9 * cell + 2 * MARGIN, 9 * cell + 2 * MARGIN)

    def _fit_legend(self) -> None:
        """Beside a board that develops, where there is room."""
        frame = self.board.frame
        room = self.width() - self.board.width() - 3 * PAD
        self.legend.setVisible(frame is not None and not frame.committed and room >= px(LEAST_LEGEND))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._is_built:
            self._fit_board()
            self._fit_legend()


class WatchedCanvas(CanvasView):
    """A canvas that tells ``watch`` what it was given to show."""

    def __init__(self, watch: Callable[[BlockState], None]) -> None:
        super().__init__()
        self._watch = watch

    def set_block(self, block: BlockState | None) -> None:
        super().set_block(block)
        if block is not None:
            self._watch(block)
