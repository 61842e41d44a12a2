"""The widget of a board, in which a puzzle is entered or a run is watched. Takes keys and points; runs nothing."""

from __future__ import annotations

import html
import math

from PySide6.QtCore import QEvent, QRect, QSize, Qt, QVariantAnimation, Signal, Slot
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from app.canvas.accessibility import tell_selected
from app.design.tokens import DARKROOM, FADE_MS, Theme, color
from app.state.run.canvas import CellState
from app.state.sudoku.board import BLANK, EMPTY, SIZE, Board, BoardEntry
from app.state.sudoku.pasting import PasteError, read
from app.state.sudoku.solve_frame import SolveFrame, entered
from app.sudoku import words
from app.sudoku.board import keys
from app.sudoku.board.accessibility import speak
from app.sudoku.board.geometry import BoardGeometry
from app.sudoku.board.glyphs import DigitGlyphs, Drawn
from app.sudoku.board.paint import Look, paint_board, paint_invitation, texts
from app.system.i18n import tr

LEAST, PREFERRED = 280, 560
TINT_LEVELS = 5
"""Repaints of a fade, as on the canvas."""
_LOCKED = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


class BoardView(QWidget):
    """A square board in the middle of what room there is."""

    changed = Signal(object)  # the Board being entered, after every change of it
    cellHovered = Signal(int)  # noqa: N815 - Qt's way of naming; -1 for none
    cellSelected = Signal(int)  # noqa: N815
    refused = Signal(str)  # why what was pasted is no puzzle, in a sentence

    def __init__(self, parent: QWidget | None = None, first: Board = EMPTY) -> None:
        """``first`` is there from the beginning and cannot be undone."""
        super().__init__(parent)
        self._theme = DARKROOM
        self._glyphs = DigitGlyphs()
        self._entry = BoardEntry(first)
        self._entered = entered(self._entry.board.cells)
        self._run: SolveFrame | None = None
        self._read_only = False
        self._reduced_motion = False
        self._hovered = -1
        self._drawn: list[Drawn] | None = None  # the texts, until something else is to be seen
        self._tint = 0.0
        self._tinted: dict[int, CellState] = {}
        self._fade = QVariantAnimation(self)
        self._fade.setDuration(FADE_MS)
        self._fade.setStartValue(1.0)
        self._fade.setEndValue(0.0)
        self._fade.valueChanged.connect(self._on_fade)
        self._geometry = BoardGeometry.within(PREFERRED, PREFERRED)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(tr("Sudoku board"))
        self._describe()
        speak(self)

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
            self._start_fade(before, frame)
        self._describe()
        self._redraw()

    def set_read_only(self, read_only: bool) -> None:
        """Take no digits, for instance while a run is being started."""
        self._read_only = read_only
        self.update()  # the invitation to type goes

    def set_theme(self, theme: Theme) -> None:
        if theme != self._theme:
            self._theme = theme
            self._redraw()

    def set_reduced_motion(self, reduced: bool) -> None:
        self._reduced_motion = reduced
        if reduced:
            self._stop_fade()
            self.update()

    @property
    def selected(self) -> int:
        """The cell that the cursor is on."""
        return self._entry.cursor

    @selected.setter
    def selected(self, index: int) -> None:
        self._take(self._entry.go(index))

    @property
    def hovered(self) -> int:
        """The cell under the pointer, here or in another view; -1 for none."""
        return self._hovered

    @hovered.setter
    def hovered(self, index: int) -> None:
        index = index if 0 <= index < SIZE else -1
        if index != self._hovered:
            self._hovered = index
            self.update()
            self.cellHovered.emit(index)

    @property
    def grid(self) -> BoardGeometry:
        """Where the cells stand at the present size."""
        return self._geometry

    def cell_text(self, index: int) -> list[str]:
        """A cell in words, a line for each fact; the text of its tool tip. Raises IndexError outside the board."""
        return [words.of_cell(self.shown, index), *words.details(self.shown, index)]

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
            tell_selected(self, entry.cursor)
            self.cellSelected.emit(entry.cursor)
        if entry.board != before.board:
            self.changed.emit(entry.board)

    # ---------------------------------------------------------------- motion

    def _start_fade(self, before: SolveFrame, now: SolveFrame) -> None:
        """Tint what this step has locked or melted."""
        if self._reduced_motion:
            return
        for index, (old, new) in enumerate(zip(before.cells, now.cells, strict=True)):
            melted = new.state == CellState.REMELTED != old.state
            if melted or (new.state == CellState.ACCEPTED and old.state not in _LOCKED):
                self._tinted[index] = new.state
        if self._tinted:
            self._tint = 1.0
            self._fade.start()

    def _stop_fade(self) -> None:
        self._fade.stop()
        self._tint, self._tinted = 0.0, {}

    def _on_fade(self, value: float) -> None:
        level = math.ceil(value * TINT_LEVELS) / TINT_LEVELS
        if level != self._tint:
            self._tint = level
            self.update()

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
        self._glyphs = DigitGlyphs()
        self._redraw()

    def _redraw(self) -> None:
        self._drawn = None
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        try:
            self._paint(painter, event.rect())
        finally:
            painter.end()  # Qt does not survive a painter that outlives its event

    def _paint(self, painter: QPainter, area: QRect) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
        painter.fillRect(area, color(self._theme.surface))
        look = Look(self._entry.cursor, self._hovered, self.hasFocus(), self._tint, self._tinted)
        if self._drawn is None:
            self._drawn = texts(self._geometry, self.shown, self._theme, self._glyphs)
        paint_board(painter, self._geometry, self.shown, self._theme, self._glyphs, look, self._drawn)
        if self.board.is_empty and not self.is_read_only and not self.hasFocus():
            text = tr("Type digits, paste a puzzle, or generate one.")
            paint_invitation(painter, self._geometry, self._theme, text)

    def _describe(self) -> None:
        text = words.of_board(self.shown)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)

    # ---------------------------------------------------------------- pointing and keys

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.hovered = self._geometry.cell_at(event.position().x(), event.position().y())

    def leaveEvent(self, event: QEvent) -> None:
        self.hovered = -1
        super().leaveEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton):
            self._take(self._entry.go(self._geometry.cell_at(event.position().x(), event.position().y())))
        else:
            super().mousePressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def menu(self) -> QMenu:
        """What can be done with the board, as a menu."""
        menu = QMenu(self)
        free = not self.is_read_only
        for text, keys_, deed, enabled in (
            (tr("Undo"), QKeySequence.StandardKey.Undo, self.undo, free and self._entry.can_undo),
            (tr("Redo"), QKeySequence.StandardKey.Redo, self.redo, free and self._entry.can_redo),
            (tr("Copy as 81 characters"), QKeySequence.StandardKey.Copy, self.copy, True),
            (tr("Paste a puzzle"), QKeySequence.StandardKey.Paste, self.paste, free),
            (tr("Clear the board"), None, self.clear_all, free and not self.board.is_empty),
        ):
            action = menu.addAction(text, deed)
            action.setEnabled(enabled)
            if keys_ is not None:
                action.setShortcut(keys_)
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:
        deed = keys.deed_of(event)
        digit = keys.digit_of(event)
        place = keys.place_of(event, self._entry.cursor)
        if deed == "copy":
            self.copy()
        elif place is not None:
            self._take(self._entry.go(place))
        elif self.is_read_only or (deed is None and digit is None):
            super().keyPressEvent(event)
        elif deed == "paste":
            self.paste()
        elif deed == "undo":
            self.undo()
        elif deed == "redo":
            self.redo()
        else:
            self.put(digit or BLANK)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride and self._wants(event):
            event.accept()  # a shortcut of the window by the same keys waits
            return True
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            index = self._geometry.cell_at(event.pos().x(), event.pos().y())
            if index < 0:
                QToolTip.hideText()
                event.ignore()
            else:
                lines = "<br>".join(html.escape(line) for line in self.cell_text(index))
                rect = QRect(*self._geometry.rect_of(index))
                QToolTip.showText(event.globalPos(), f"<qt>{lines}</qt>", self, rect)
            return True
        return super().event(event)

    def _wants(self, event: QKeyEvent) -> bool:
        if keys.deed_of(event) == "copy" or keys.place_of(event, 0) is not None:
            return True
        return not self.is_read_only and (keys.deed_of(event) is not None or keys.digit_of(event) is not None)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()
