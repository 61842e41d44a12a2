"""A board that shows a block of a run: the canvas of the token grid, with its positions laid out as a Sudoku."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.board.geometry import LEAST_CELL, MARGIN
from app.board.view import FrameView
from app.canvas.heat import Heat
from app.state.run.canvas import BlockState
from app.state.sudoku.placing import Placed
from app.state.sudoku.solve_frame import frame

SMALLEST = 9 * LEAST_CELL + 2 * MARGIN


class BlockBoard(FrameView):
    """A board whose hovering, selection and colours use positions on the canvas; -1 stands for none.

    A position without a cell, such as a line break, can be selected in other views; here the selection is then empty.
    """

    positionSelected = Signal(int)  # noqa: N815 - Qt's naming style
    positionHovered = Signal(int)  # noqa: N815

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._placed: Placed | None = None
        self._piece: Callable[[int], str] = str
        self._cells: dict[int, int] = {}  # by position
        self._block: BlockState | None = None
        self._heat: Heat | None = None
        self._is_led = False  # True while another view sets the selected or hovered cell
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def placed(self) -> Placed | None:
        """The puzzle and the positions of its cells; None if no board is shown."""
        return self._placed

    @property
    def block(self) -> BlockState | None:
        """The shown block, as it was when it was set."""
        return self._block

    def place(self, placed: Placed | None, piece: Callable[[int], str]) -> None:
        """Sets the puzzle with the canvas positions of its cells, and the function for the text of a token."""
        self._piece = piece
        if placed != self._placed:
            self._placed = placed
            self._cells = {} if placed is None else {place: cell for cell, place in enumerate(placed.positions)}
            self.set_block(None)

    def set_block(self, block: BlockState | None) -> None:
        """Shows a block, or its new state."""
        self._block = block
        placed = self._placed
        self.set_frame(None if placed is None else frame(placed.puzzle, block, self._piece, placed.positions))

    def set_heat(self, heat: Heat | None) -> None:
        """Colours the cells by a figure of their positions; None shows only the states."""
        if heat is self._heat or (heat is not None and heat.same_as(self._heat)):
            return
        self._heat = heat
        placed = self._placed
        if heat is None or placed is None or max(placed.positions) >= len(heat.shares):
            self.set_shares(None)
        else:
            self.set_shares(heat.shares[list(placed.positions)].tolist())

    def cell_details(self, index: int) -> list[str]:
        lines = super().cell_details(index)
        if self._heat is not None and self._heat.words is not None and self._placed is not None:
            lines.append(self._heat.words(self._placed.positions[index]))
        return lines

    def cell_of(self, position: int) -> int:
        """Returns the cell at a position of the canvas; -1 if there is none."""
        return self._cells.get(position, -1)

    def select_position(self, position: int) -> None:
        """Selects the position that was selected in another view of the canvas."""
        self._is_led = True
        self.selected = self.cell_of(position)
        self._is_led = False

    def point_at(self, position: int) -> None:
        """Marks the position under the pointer in another view of the canvas."""
        self._is_led = True
        self.hovered = self.cell_of(position)
        self._is_led = False

    def _position(self, cell: int) -> int:
        return -1 if cell < 0 or self._placed is None else self._placed.positions[cell]

    def _select(self, index: int) -> None:
        before = self.selected
        super()._select(index)
        if self.selected != before and not self._is_led:
            self.positionSelected.emit(self._position(self.selected))

    def _hover(self, index: int) -> None:
        before = self.hovered
        super()._hover(index)
        if self.hovered != before and not self._is_led:
            self.positionHovered.emit(self._position(self.hovered))

    def hasHeightForWidth(self) -> bool:
        return False

    def minimumSizeHint(self) -> QSize:
        return QSize(SMALLEST, SMALLEST)
