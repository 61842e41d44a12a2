"""The board of an answer that is a Sudoku, during generation and afterwards with a verdict below it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.board.block_board import BlockBoard
from app.board.geometry import MARGIN
from app.board.legend import BoardLegend
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
AROUND = 430  # pixels of a window's height outside the board
LEAST_LEGEND = 120


class AnswerBoard(QWidget):
    """A Sudoku board; ``is_on`` is True while the last content shown is a Sudoku. Built when it first is."""

    def __init__(self, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._rebuilt = rebuilt
        self.is_on = False
        self.is_alone = False  # True if the answer is the grid and nothing else
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
        self._rebuilt()

    def tab_stops(self) -> list[QWidget]:
        return [self.board, self.verdict] if self._is_built else []

    @Slot()
    def _take_text_size(self) -> None:
        self._fit_board()
        self.verdict.setMinimumHeight(px(24))  # so that nothing moves when the verdict appears

    def show_block(self, prompt: str, block: BlockState, piece: Callable[[int], str]) -> None:
        """Shows the state of a canvas, if the answer to this prompt is a Sudoku."""
        found = placed(prompt, block, piece)
        self.is_on = found is not None
        if found is not None:
            self._build()
            self.is_alone |= not block.committed
            self.board.place(found, piece)
            self.board.set_block(block)
            self._judge()

    def show_text(self, prompt: str, text: str) -> None:
        """Shows the final answer, if it is a Sudoku."""
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

    def _fit_board(self) -> None:
        """Sets the board's size: fixed, but smaller in a low window so that all of it is visible."""
        cell, window = px(CELL), self.window()
        if window is not self:  # it has been placed in the window
            cell = min(cell, max((window.height() - px(AROUND)) // 9, px(LEAST_CELL)))
        self.board.setFixedSize(9 * cell + 2 * MARGIN, 9 * cell + 2 * MARGIN)

    def _fit_legend(self) -> None:
        """Shows the legend next to a board that is being filled, if there is room."""
        frame = self.board.frame
        room = self.width() - self.board.width() - 3 * PAD
        self.legend.setVisible(frame is not None and not frame.committed and room >= px(LEAST_LEGEND))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._is_built:
            self._fit_board()
            self._fit_legend()
