"""The board for assistive technology: a table of 81 cells, each with its digit, its state and its faults in words."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface

from app.canvas.accessibility import Canvas, Cell
from app.sudoku import words

if TYPE_CHECKING:
    from app.sudoku.board.view import BoardView

_views: weakref.WeakSet[BoardView] = weakref.WeakSet()
_kept: list[QAccessibleInterface] = []  # the platform's side may ask at any time for what it was once given
_installed = False


def speak(view: BoardView) -> None:
    """Let assistive technology see a board cell by cell."""
    global _installed
    if not _installed:
        _installed = True
        QAccessible.installFactory(_factory)
    _views.add(view)


def _factory(_kind: str, thing: QObject) -> QAccessibleInterface | None:
    if thing in _views:
        made = Table(thing)
        _kept.append(made)
        return made
    return None


class Table(Canvas):
    """A table whose children are the cells, row by row."""

    def child(self, index: int) -> QAccessibleInterface | None:
        if not 0 <= index < self.childCount():
            return None
        while len(self._cells) <= index:
            made = BoardCell(self, len(self._cells))
            self._cells.append(made)
            _kept.append(made)
        return self._cells[index]


class BoardCell(Cell):
    """One cell of the board."""

    @property
    def view(self) -> BoardView | None:  # type: ignore[override]
        """The board; None once Qt has deleted it."""
        return self.canvas.view  # type: ignore[return-value]

    def text(self, kind: QAccessible.Text) -> str:
        view = self.view
        if view is None:
            return ""
        if kind == QAccessible.Text.Name:
            return words.of_cell(view.shown, self.index)
        if kind == QAccessible.Text.Value:
            cell = view.shown.cells[self.index]
            return cell.digit or cell.given
        return ", ".join(words.details(view.shown, self.index)) if kind == QAccessible.Text.Description else ""

    def state(self) -> QAccessible.State:
        found = super().state()
        if self.view is not None:
            found.readOnly = self.view.is_read_only
        return found
