"""The widget of a board that shows a frame of a run. It accepts no input of digits and starts no runs."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.board import words
from app.board.geometry import LEAST_CELL, MARGIN, BoardGeometry
from app.board.glyphs import BoardGlyphs, Drawn
from app.board.paint import BoardPaintOptions, paint_board, texts
from app.canvas.accessibility import expose_cells
from app.canvas.grid_view import GridView
from app.canvas.heat import Heat
from app.design import themes
from app.design.controls import grow_with_width
from app.design.tokens import Theme, color, set_inks
from app.state.run.canvas import BlockState, CellState
from app.state.sudoku.board import BLANK, EMPTY, SIZE
from app.state.sudoku.placing import Placed
from app.state.sudoku.solve_frame import SolveFrame, entered, frame
from app.system.i18n import tr

Edit = Literal["copy", "paste", "undo", "redo"]

_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
_CLEARING = (Qt.Key.Key_Backspace, Qt.Key.Key_Delete)
_CONTROL, _SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
_KEYPAD = Qt.KeyboardModifier.KeypadModifier
_REDO = QKeySequence("Ctrl+Y"), QKeySequence("Ctrl+Shift+Z")
SMALLEST = 9 * LEAST_CELL + 2 * MARGIN
LEAST_SIDE, PREFERRED_SIDE = 280, 560
_LOCKED = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


def digit_of(event: QKeyEvent) -> str | None:
    """Returns the digit of a key, ``0`` if it clears; None for any other key.

    It uses the text of the key, not its code: some keyboards have digits on Shift, and some scripts their own digits.
    """
    if event.modifiers() & ~(_SHIFT | _KEYPAD):
        return None
    if event.key() in _CLEARING:
        return BLANK
    text = event.text()
    if text == ".":
        return BLANK
    value = unicodedata.digit(text, None) if len(text) == 1 else None
    return None if value is None else str(value)


def place_of(event: QKeyEvent, cursor: int) -> int | None:
    """Returns the cell that a key moves the cursor to; None for other keys.

    Keys are the arrows, and Home and End for the ends of the row, or with Ctrl of the board.
    """
    modifiers, key = event.modifiers() & ~_KEYPAD, Qt.Key(event.key())
    row, column = divmod(cursor, 9)
    if not modifiers and key in _STEPS:
        down, right = _STEPS[key]
        return 9 * min(max(row + down, 0), 8) + min(max(column + right, 0), 8)
    if key in (Qt.Key.Key_Home, Qt.Key.Key_End) and modifiers in (Qt.KeyboardModifier.NoModifier, _CONTROL):
        first = key == Qt.Key.Key_Home
        if modifiers:
            return 0 if first else SIZE - 1
        return 9 * row + (0 if first else 8)
    return None


def edit_of(event: QKeyEvent) -> Edit | None:
    """Returns "copy", "paste", "undo" or "redo" for their usual keys; else None."""
    if event.matches(QKeySequence.StandardKey.Copy):
        return "copy"
    if event.matches(QKeySequence.StandardKey.Paste):
        return "paste"
    if event.matches(QKeySequence.StandardKey.Undo):
        return "undo"
    pressed = QKeySequence(event.keyCombination())
    return "redo" if event.matches(QKeySequence.StandardKey.Redo) or pressed in _REDO else None


class FrameView(GridView):
    """A square board centred in the widget; without a frame it is empty."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._glyphs = BoardGlyphs()
        self.frame: SolveFrame | None = None  # the shown frame of a run; None if there is none
        self._blank = entered(EMPTY.cells)
        self._shares: Sequence[float] | None = None  # of the colour scale, by cell; NaN for no colour
        self.doubts: frozenset[int] = frozenset()  # cells that the user should check, while no run is shown
        self._drawn: list[Drawn] | None = None  # cached texts; None after a change
        self._drawn_in: Theme | None = None
        self._geometry = BoardGeometry.within(PREFERRED_SIDE, PREFERRED_SIDE)
        grow_with_width(self, QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(tr("Sudoku board"))
        expose_cells(self)

    @property
    def shown(self) -> SolveFrame:
        """The painted frame: that of the run, or an empty board."""
        return self._blank if self.frame is None else self.frame

    def set_frame(self, frame: SolveFrame | None) -> None:
        """Shows a frame of a run; None shows an empty board."""
        before, self.frame = self.frame, frame
        if before is frame:
            return
        if before is not None and frame is not None and before.puzzle == frame.puzzle and frame.step >= before.step:
            self._fade_changes(before, frame)  # if no cell has changed, an earlier tint continues
        else:
            self._stop_fade()
        self._describe()
        self._redraw()

    @property
    def grid(self) -> BoardGeometry:
        return self._geometry

    def cell_name(self, index: int) -> str:
        return words.of_cell(self.shown, index)

    def cell_value(self, index: int) -> str:
        cell = self.shown.cells[index]
        return cell.digit or cell.given

    def cell_details(self, index: int) -> list[str]:
        return words.details(self.shown, index)

    @Slot()
    def copy(self) -> None:
        """Copies the grid that the run wrote to the clipboard, as 81 characters."""
        QGuiApplication.clipboard().setText(self.shown.answer)

    def _fade_changes(self, before: SolveFrame, now: SolveFrame) -> None:
        changed: dict[int, CellState] = {}
        for index, (old, new) in enumerate(zip(before.cells, now.cells, strict=True)):
            taken_back = new.state == CellState.TAKEN_BACK != old.state
            if taken_back or (new.state == CellState.ACCEPTED and old.state not in _LOCKED):
                changed[index] = new.state
        self._start_fade(changed)

    def sizeHint(self) -> QSize:
        return QSize(PREFERRED_SIDE, PREFERRED_SIDE)

    def minimumSizeHint(self) -> QSize:
        return QSize(LEAST_SIDE, LEAST_SIDE)

    def heightForWidth(self, width: int) -> int:
        return width

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._geometry = BoardGeometry.within(self.width(), self.height())
        self._glyphs = BoardGlyphs()
        self._redraw()

    def _redraw(self) -> None:
        self._drawn = None
        self.update()

    def _paint(self, painter: QPainter, area: QRect) -> None:
        theme = themes.current()
        painter.fillRect(area, color(theme.surface))
        doubts = self.doubts if self.frame is None else ()
        options = BoardPaintOptions(
            self._selected, self._hovered, self.hasFocus(), self._tint, self._tinted, self._shares, doubts
        )
        if self._drawn is None or self._drawn_in is not theme:
            self._drawn = texts(self._geometry, self.shown, theme, self._glyphs, self._shares, doubts)
            self._drawn_in = theme
        paint_board(painter, self._geometry, self.shown, theme, self._glyphs, options, self._drawn)
        if self.hasFocus() and self._selected < 0:
            set_inks(painter, QPen(color(theme.focus), 2), Qt.BrushStyle.NoBrush)
            side = self._geometry.side
            painter.drawRect(QRect(self._geometry.left, self._geometry.top, side, side).adjusted(-3, -3, 3, 3))

    def _describe(self) -> None:
        text = words.of_board(self.shown)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        place = place_of(event, max(self._selected, 0))
        if edit_of(event) == "copy":
            self.copy()
        elif place is not None:
            self._select(place if self._selected >= 0 else 0)
        elif event.key() == Qt.Key.Key_Escape and self._selected >= 0:
            self._select(-1)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride and self._wants(event):
            event.accept()  # takes precedence over a shortcut of the window with these keys
            return True
        return super().event(event)

    def _wants(self, event: QKeyEvent) -> bool:
        return edit_of(event) == "copy" or place_of(event, 0) is not None


class BlockBoard(FrameView):
    """A board whose hovering, selection and colours use positions on the canvas; -1 stands for none.

    A position without a cell, such as a line break, can be selected in other views; here the selection is then empty.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.placed: Placed | None = None  # the puzzle and the positions of its cells; None if no board is shown
        self._piece: Callable[[int], str] = str
        self._cells: dict[int, int] = {}  # by position
        self.block: BlockState | None = None  # the shown one, as it was when it was set
        self._heat: Heat | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def place(self, placed: Placed | None, piece: Callable[[int], str]) -> None:
        """Sets the puzzle with the canvas positions of its cells, and the function for the text of a token."""
        self._piece = piece
        if placed != self.placed:
            self.placed = placed
            self._cells = {} if placed is None else {place: cell for cell, place in enumerate(placed.positions)}
            self.set_block(None)

    def set_block(self, block: BlockState | None) -> None:
        self.block, placed = block, self.placed
        self.set_frame(None if placed is None else frame(placed.puzzle, block, self._piece, placed.positions))

    def set_heat(self, heat: Heat | None) -> None:
        """Colours the cells by a figure of their positions; None shows only the states."""
        if heat is self._heat or (heat is not None and heat.same_as(self._heat)):
            return
        self._heat = heat
        placed = self.placed
        self._shares = None
        if heat is not None and placed is not None and max(placed.positions) < len(heat.shares):
            self._shares = heat.shares[list(placed.positions)].tolist()
        self._redraw()

    def cell_details(self, index: int) -> list[str]:
        lines = super().cell_details(index)
        if self._heat is not None and self._heat.words is not None and self.placed is not None:
            lines.append(self._heat.words(self.placed.positions[index]))
        return lines

    def cell_of(self, position: int) -> int:
        """Returns the cell at a position of the canvas; -1 if there is none."""
        return self._cells.get(position, -1)

    def position_of(self, cell: int) -> int:
        """Returns the position of a cell on the canvas; -1 if there is none."""
        return -1 if cell < 0 or self.placed is None else self.placed.positions[cell]

    def minimumSizeHint(self) -> QSize:
        return QSize(SMALLEST, SMALLEST)
