"""Exposes a grid of cells to assistive technology as a table. Each cell has its position, content and state in words.

Qt's interface for tables cannot be implemented in Python, so a cell's name holds its row and column. An interface that
has been returned to Qt is kept until the program ends: the platform may ask for it at any time.
"""

# mypy: disable-error-code="override"
# Qt accepts None where there is no parent, child or window; PySide's stubs leave that out.

from __future__ import annotations

import weakref

from PySide6.QtCore import QObject, QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleEvent, QAccessibleInterface, QAccessibleObject, QWindow
from shiboken6 import isValid

from app.canvas.grid_view import GridView

_views: weakref.WeakSet[GridView] = weakref.WeakSet()
_kept: list[QAccessibleInterface] = []
_installed = False


def expose_cells(view: GridView) -> None:
    """Makes each cell of a grid visible to assistive technology."""
    global _installed
    if not _installed:
        _installed = True
        QAccessible.installFactory(_factory)
    _views.add(view)
    weak = weakref.ref(view)  # a strong reference in its own connection would keep the view alive for ever
    view.cellSelected.connect(lambda cell: _announce_selection(weak(), cell))


def _announce_selection(view: GridView | None, cell: int) -> None:
    if view is not None and QAccessible.isActive() and view.hasFocus():
        event = QAccessibleEvent(view, QAccessible.Event.Focus)
        event.setChild(cell)
        QAccessible.updateAccessibility(event)


def _factory(_kind: str, thing: QObject) -> QAccessibleInterface | None:
    if isinstance(thing, GridView) and thing in _views:
        grid = AccessibleGrid(thing)
        _kept.append(grid)
        return grid
    return None


class AccessibleGrid(QAccessibleObject):
    """A table whose children are the cells, row by row."""

    def __init__(self, view: GridView) -> None:
        super().__init__(view)
        self._view = view
        self._cells: list[AccessibleCell] = []

    @property
    def view(self) -> GridView | None:
        """The grid; None once Qt has deleted it."""
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
            cell = AccessibleCell(self, len(self._cells))
            self._cells.append(cell)
            _kept.append(cell)
        return self._cells[index]

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        return child.index if isinstance(child, AccessibleCell) and child.table is self else -1

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
        state = QAccessible.State()
        if self.view is not None:
            state.focusable = True
            state.focused = self.view.hasFocus()
            state.invisible = not self.view.isVisible()
        return state

    def rect(self) -> QRect:
        if self.view is None:
            return QRect()
        return QRect(self.view.mapToGlobal(QPoint(0, 0)), self.view.size())


class AccessibleCell(QAccessibleInterface):
    def __init__(self, table: AccessibleGrid, index: int) -> None:
        super().__init__()
        self.table, self.index = table, index

    @property
    def view(self) -> GridView | None:
        """The grid; None if it no longer has this cell."""
        view = self.table.view
        return view if view is not None and self.index < view.grid.count else None

    def isValid(self) -> bool:
        return self.view is not None

    def object(self) -> QObject | None:
        return None

    def window(self) -> QWindow | None:
        return self.table.window()

    def parent(self) -> QAccessibleInterface:
        return self.table

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

    def relations(
        self, _match: QAccessible.RelationFlag = QAccessible.RelationFlag.AllRelations
    ) -> list[tuple[QAccessibleInterface, QAccessible.RelationFlag]]:
        return []

    def text(self, kind: QAccessible.Text) -> str:
        view = self.view
        if view is None:
            return ""
        if kind == QAccessible.Text.Name:
            return view.cell_name(self.index)
        if kind == QAccessible.Text.Value:
            return view.cell_value(self.index)
        return ", ".join(view.cell_details(self.index)) if kind == QAccessible.Text.Description else ""

    def setText(self, _kind: QAccessible.Text, _text: str) -> None:
        """Does nothing: cells can only be edited with the keyboard."""

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.Cell

    def state(self) -> QAccessible.State:
        state = QAccessible.State()
        view = self.view
        if view is not None:
            state.selectable = state.focusable = True
            state.readOnly = view.is_read_only
            state.selected = view.selected == self.index
            state.focused = state.selected and view.hasFocus()
        return state

    def rect(self) -> QRect:
        view = self.view
        if view is None:
            return QRect()
        rect = QRect(*view.grid.rect_of(self.index))
        return QRect(view.mapToGlobal(rect.topLeft()), rect.size())
