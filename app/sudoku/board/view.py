"""The widget of a board, in which a puzzle is entered or a run is shown. It runs nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QResizeEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.canvas.accessibility import expose_cells
from app.canvas.grid_view import GridView
from app.design.tokens import Theme, color
from app.state.run.canvas import CellState
from app.state.sudoku.board import BLANK, EMPTY, SIZE, Board, BoardEntry
from app.state.sudoku.pasting import PasteError, read
from app.state.sudoku.solve_frame import SolveFrame, entered
from app.sudoku import words
from app.sudoku.board import keys
from app.sudoku.board.geometry import BoardGeometry
from app.sudoku.board.glyphs import BoardGlyphs, Drawn
from app.sudoku.board.paint import BoardPaintOptions, paint_board, paint_invitation, texts
from app.system.i18n import tr

LEAST, PREFERRED = 280, 560
_LOCKED = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


class BoardView(GridView):
    """A square board centred in the space there is."""

    changed = Signal(object)  # the Board being entered, after every change of it
    refused = Signal(str)  # why what was pasted is no puzzle, in a sentence
    selecting_buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton)

    def __init__(self, parent: QWidget | None = None, first: Board = EMPTY) -> None:
        """``first`` is there from the beginning and cannot be undone."""
        super().__init__(parent)
        self._glyphs = BoardGlyphs()
        self._entry = BoardEntry(first)
        self._selected = self._entry.cursor
        self._entered = entered(self._entry.board.cells)
        self._run: SolveFrame | None = None
        self._read_only = False
        self._drawn: list[Drawn] | None = None  # the texts, until something else is to be seen
        self._geometry = BoardGeometry.within(PREFERRED, PREFERRED)
        self._grow_by_width(QSizePolicy.Policy.Expanding)
        self.setAccessibleName(tr("Sudoku board"))
        self._describe()
        expose_cells(self)

    # ---------------------------------------------------------------- what is shown

    @property
    def board(self) -> Board:
        """The puzzle being entered."""
        return self._entry.board

    @property
    def entry(self) -> BoardEntry:
        """The puzzle with its cursor and its history."""
        return self._entry

    @property
    def frame(self) -> SolveFrame | None:
        """The run's frame on show; None while a puzzle is entered."""
        return self._run

    @property
    def shown(self) -> SolveFrame:
        """What is painted."""
        return self._entered if self._run is None else self._run

    @property
    def is_read_only(self) -> bool:
        """Whether digits can be entered now: not while a run is on show."""
        return self._read_only or self._run is not None

    def set_puzzle(self, board: Board) -> None:
        """Enter another puzzle, in one change that can be undone; a run that was on show goes."""
        self.set_frame(None)
        self._take(self._entry.replace(board))

    def set_frame(self, frame: SolveFrame | None) -> None:
        """Show a frame of a run, read only; None goes back to the puzzle being entered."""
        before, self._run = self._run, frame
        if before is frame:
            return
        self._stop_fade()
        if before is not None and frame is not None and before.puzzle == frame.puzzle and frame.step > before.step:
            self._fade_changes(before, frame)
        self._describe()
        self._redraw()

    def set_read_only(self, read_only: bool) -> None:
        """Take no digits, for instance while a run is being started."""
        self._read_only = read_only
        self.update()  # the invitation to type goes

    def set_theme(self, theme: Theme) -> None:
        if theme != self._theme:
            self._drawn = None
        super().set_theme(theme)

    @property
    def grid(self) -> BoardGeometry:
        """Where the cells stand at the present size."""
        return self._geometry

    def cell_name(self, index: int) -> str:
        return words.of_cell(self.shown, index)

    def cell_value(self, index: int) -> str:
        cell = self.shown.cells[index]
        return cell.digit or cell.given

    def cell_details(self, index: int) -> list[str]:
        return words.details(self.shown, index)

    # ---------------------------------------------------------------- entering

    @Slot()
    def undo(self) -> None:
        self._edit(self._entry.undo())

    @Slot()
    def redo(self) -> None:
        self._edit(self._entry.redo())

    @Slot()
    def clear_all(self) -> None:
        self._edit(self._entry.clear_all())

    def put(self, digit: str) -> None:
        """Write a digit at the cursor; ``0`` clears it."""
        self._edit(self._entry.put(digit))

    @Slot()
    def copy(self) -> None:
        """Put the puzzle on the clipboard, or what a run wrote, as 81 characters."""
        text = self.board.text() if self._run is None else self._run.answer
        QGuiApplication.clipboard().setText(text)

    @Slot()
    def paste(self) -> None:
        """Take a puzzle from the clipboard; ``refused`` says why not."""
        self.paste_text(QGuiApplication.clipboard().text())

    def paste_text(self, text: str) -> None:
        """Take a puzzle in any of the common formats, in one change; ``refused`` says why not."""
        if self.is_read_only:
            return
        try:
            board = read(text)
        except PasteError as error:
            self.refused.emit(str(error))
            return
        self._edit(self._entry.replace(board))

    def _edit(self, entry: BoardEntry) -> None:
        if not self.is_read_only:
            self._take(entry)

    def _take(self, entry: BoardEntry) -> None:
        before, self._entry = self._entry, entry
        if entry.board != before.board:
            self._entered = entered(entry.board.cells)
            self._describe()
            self._redraw()
        elif entry is not before:
            self.update()
        if entry.cursor != before.cursor:
            self._selected = entry.cursor
            self.cellSelected.emit(entry.cursor)
        if entry.board != before.board:
            self.changed.emit(entry.board)

    # ---------------------------------------------------------------- motion

    def _fade_changes(self, before: SolveFrame, now: SolveFrame) -> None:
        """Tint what a step has locked or melted."""
        changed: dict[int, CellState] = {}
        for index, (old, new) in enumerate(zip(before.cells, now.cells, strict=True)):
            melted = new.state == CellState.REMELTED != old.state
            if melted or (new.state == CellState.ACCEPTED and old.state not in _LOCKED):
                changed[index] = new.state
        self._start_fade(changed)

    # ---------------------------------------------------------------- size and painting

    def sizeHint(self) -> QSize:
        return QSize(PREFERRED, PREFERRED)

    def minimumSizeHint(self) -> QSize:
        return QSize(LEAST, LEAST)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return width

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._geometry = BoardGeometry.within(self.width(), self.height())
        self._glyphs = BoardGlyphs()
        self._redraw()

    def _redraw(self) -> None:
        self._drawn = None
        self.update()

    def _paint(self, painter: QPainter, area: QRect) -> None:
        painter.fillRect(area, color(self._theme.surface))
        options = BoardPaintOptions(self._entry.cursor, self._hovered, self.hasFocus(), self._tint, self._tinted)
        if self._drawn is None:
            self._drawn = texts(self._geometry, self.shown, self._theme, self._glyphs)
        paint_board(painter, self._geometry, self.shown, self._theme, self._glyphs, options, self._drawn)
        if self.board.is_empty and not self.is_read_only and not self.hasFocus():
            text = tr("Type digits, paste a puzzle, or generate one.")
            paint_invitation(painter, self._geometry, self._theme, text)

    def _describe(self) -> None:
        text = words.of_board(self.shown)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)

    # ---------------------------------------------------------------- pointing and keys

    def _hover(self, index: int) -> None:
        super()._hover(index if 0 <= index < SIZE else -1)

    def _select(self, index: int) -> None:
        self._take(self._entry.go(index))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def menu(self) -> QMenu:
        """What can be done with the board, as a menu."""
        menu = QMenu(self)
        free = not self.is_read_only
        for text, keys_, act, enabled in (
            (tr("Undo"), QKeySequence.StandardKey.Undo, self.undo, free and self._entry.can_undo),
            (tr("Redo"), QKeySequence.StandardKey.Redo, self.redo, free and self._entry.can_redo),
            (tr("Copy as 81 characters"), QKeySequence.StandardKey.Copy, self.copy, True),
            (tr("Paste a puzzle"), QKeySequence.StandardKey.Paste, self.paste, free),
            (tr("Clear the board"), None, self.clear_all, free and not self.board.is_empty),
        ):
            action = menu.addAction(text, act)
            action.setEnabled(enabled)
            if keys_ is not None:
                action.setShortcut(keys_)
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:
        edit = keys.edit_of(event)
        digit = keys.digit_of(event)
        place = keys.place_of(event, self._entry.cursor)
        if edit == "copy":
            self.copy()
        elif place is not None:
            self._take(self._entry.go(place))
        elif self.is_read_only or (edit is None and digit is None):
            super().keyPressEvent(event)
        elif edit == "paste":
            self.paste()
        elif edit == "undo":
            self.undo()
        elif edit == "redo":
            self.redo()
        else:
            self.put(digit or BLANK)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride and self._wants(event):
            event.accept()  # a shortcut of the window by the same keys waits
            return True
        return super().event(event)

    def _wants(self, event: QKeyEvent) -> bool:
        if keys.edit_of(event) == "copy" or keys.place_of(event, 0) is not None:
            return True
        return not self.is_read_only and (keys.edit_of(event) is not None or keys.digit_of(event) is not None)
