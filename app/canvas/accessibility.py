"""The canvas for assistive technology: a table of cells, each with its place, its token and its state in words.

Qt's interface for tables cannot be made in Python, so rows and columns are told in words; ``CellsTable`` has them as Qt
does. An interface that was once handed out is kept for good: the platform's side of it may ask at any time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from PySide6.QtCore import QObject, QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleEvent, QAccessibleInterface, QAccessibleObject, QWindow
from shiboken6 import isValid

from app.canvas.paint import STATE_WORDS
from app.canvas.view import CanvasView
from app.system.i18n import tr

_views: weakref.WeakSet[CanvasView] = weakref.WeakSet()
_kept: list[QAccessibleInterface] = []
_installed = False


def speak(view: CanvasView) -> None:
    """Let assistive technology see a canvas cell by cell."""
    global _installed
    if not _installed:
        _installed = True
        QAccessible.installFactory(_factory)
    _views.add(view)
    view.cellSelected.connect(lambda cell: tell_selected(view, cell))


def tell_selected(view: CanvasView, cell: int) -> None:
    """Say that the keyboard is on another cell."""
    if QAccessible.isActive() and view.hasFocus():
        event = QAccessibleEvent(view, QAccessible.Event.Focus)
        event.setChild(cell)
        QAccessible.updateAccessibility(event)


def _factory(_kind: str, thing: QObject) -> QAccessibleInterface | None:
    if isinstance(thing, CanvasView) and thing in _views:
        made = Canvas(thing)
        _kept.append(made)
        return made
    return None


class Canvas(QAccessibleObject):
    """A table whose children are the cells, row by row."""

    def __init__(self, view: CanvasView) -> None:
        super().__init__(view)
        self._view = view
        self._cells: list[Cell] = []

    @property
    def view(self) -> CanvasView | None:
        """The canvas; None once Qt has deleted it."""
        return self._view if isValid(self._view) else None

    def isValid(self) -> bool:
        return self.view is not None

    def parent(self) -> QAccessibleInterface | None:
        parent = None if self.view is None else self.view.parentWidget()
        return None if parent is None else QAccessible.queryAccessibleInterface(parent)

    def window(self) -> QWindow | None:
        return None if self.view is None else self.view.window().windowHandle()

    def childCount(self) -> int:
        return 0 if self.view is None else self.view.grid.count

    def child(self, index: int) -> QAccessibleInterface | None:
        if not 0 <= index < self.childCount():
            return None
        while len(self._cells) <= index:
            made = Cell(self, len(self._cells))
            self._cells.append(made)
            _kept.append(made)
        return self._cells[index]

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        return child.index if isinstance(child, Cell) and child.canvas is self else -1

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:
        if self.view is None:
            return None
        where = self.view.mapFromGlobal(QPoint(x, y))
        return self.child(self.view.grid.cell_at(where.x(), where.y()))

    def focusChild(self) -> QAccessibleInterface | None:
        return None if self.view is None else self.child(self.view.selected)

    def text(self, kind: QAccessible.Text) -> str:
        if self.view is None:
            return ""
        if kind == QAccessible.Text.Name:
            return self.view.accessibleName()
        return self.view.accessibleDescription() if kind == QAccessible.Text.Description else ""

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.Table

    def state(self) -> QAccessible.State:
        found = QAccessible.State()
        if self.view is not None:
            found.focusable = True
            found.focused = self.view.hasFocus()
            found.invisible = not self.view.isVisible()
        return found

    def rect(self) -> QRect:
        if self.view is None:
            return QRect()
        return QRect(self.view.mapToGlobal(QPoint(0, 0)), self.view.size())


class Cell(QAccessibleInterface):
    """One position of the canvas."""

    def __init__(self, canvas: Canvas, index: int) -> None:
        super().__init__()
        self.canvas, self.index = canvas, index

    @property
    def view(self) -> CanvasView | None:
        """The canvas; None where it no longer has this cell."""
        view = self.canvas.view
        return view if view is not None and view.block is not None and self.index < view.grid.count else None

    def isValid(self) -> bool:
        return self.view is not None

    def object(self) -> QObject | None:
        return None

    def window(self) -> QWindow | None:
        return self.canvas.window()

    def parent(self) -> QAccessibleInterface:
        return self.canvas

    def child(self, _index: int) -> QAccessibleInterface | None:
        return None

    def childCount(self) -> int:
        return 0

    def indexOfChild(self, _child: QAccessibleInterface) -> int:
        return -1

    def childAt(self, _x: int, _y: int) -> QAccessibleInterface | None:
        return None

    def focusChild(self) -> QAccessibleInterface | None:
        return None

    def relations(self, _match: object) -> Iterable[object]:
        return []

    def text(self, kind: QAccessible.Text) -> str:
        view = self.view
        if view is None:
            return ""
        if kind == QAccessible.Text.Name:
            return words(view, self.index)
        return ", ".join(view.cell_text(self.index)[2:]) if kind == QAccessible.Text.Description else ""

    def setText(self, _kind: QAccessible.Text, _text: str) -> None:
        """A canvas is not written to."""

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.Cell

    def state(self) -> QAccessible.State:
        found = QAccessible.State()
        view = self.view
        if view is not None:
            found.selectable = found.focusable = found.readOnly = True
            found.selected = view.selected == self.index
            found.focused = found.selected and view.hasFocus()
        return found

    def rect(self) -> QRect:
        view = self.view
        if view is None:
            return QRect()
        rect = QRect(*view.grid.rect_of(self.index))
        return QRect(view.mapToGlobal(rect.topLeft()), rect.size())


def words(view: CanvasView, index: int) -> str:
    """A cell in one sentence: its row and column, its token, its state."""
    row, column = divmod(index, view.grid.columns)
    assert view.block is not None
    cell = view.block.cell(index, view.calm)
    return tr(
        "Row {row}, column {column}: {text}, {state}",
        row=row + 1,
        column=column + 1,
        text=repr(view.piece(cell.token)),
        state=tr(STATE_WORDS[cell.state]),
    )
