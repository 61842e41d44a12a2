"""The base widget of every grid of cells: hovering, selecting, tool tips, and a fading tint of changed cells.

The content of the cells and their painting belong to the subclasses, ``CanvasView`` and the Sudoku board.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QVariantAnimation, Signal, Slot
from PySide6.QtGui import QFocusEvent, QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.canvas.geometry import Rect
from app.design import motion
from app.design.controls import show_tip
from app.design.tokens import FADE_MS
from app.state.run.canvas import CellState

TINT_LEVELS = 5
"""The number of repaints of a fade. One each 30 ms is smooth enough and leaves the processor to the model."""


class Grid(Protocol):
    """The layout of a grid's cells, in logical pixels."""

    @property
    def count(self) -> int: ...

    def rect_of(self, index: int) -> Rect: ...

    def cell_at(self, x: float, y: float) -> int: ...


class GridView(QWidget):
    """A grid of cells, painted by a subclass's ``_paint``. The index -1 stands for no cell."""

    cellHovered = Signal(int)  # noqa: N815 - Qt's naming
    cellSelected = Signal(int)  # noqa: N815
    positionHovered = Signal(int)  # noqa: N815 - on the canvas; not if another view of it has set it here
    positionSelected = Signal(int)  # noqa: N815

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, mouseTracking=True, focusPolicy=Qt.FocusPolicy.StrongFocus)
        self._is_still = False  # never tinted, whatever the setting
        self._selected = -1
        self._hovered = -1
        self._is_led = False  # True while another view sets the selected or hovered cell
        self._tinted: Mapping[int, CellState] = {}  # cells that have just changed, and their new states
        self._tint = 0.0  # 1 just after the change, falling to 0
        self._fade = QVariantAnimation(self, duration=FADE_MS, startValue=1.0, endValue=0.0)
        self._fade.valueChanged.connect(self._on_fade)
        motion.changed.connect(self._end_motion)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    @property
    def grid(self) -> Grid:
        raise NotImplementedError

    @property
    def is_read_only(self) -> bool:
        """True if no cell can be edited now."""
        return True

    def cell_name(self, index: int) -> str:
        """Describes a cell in one sentence, for assistive technology. Raises IndexError outside the grid."""
        raise NotImplementedError

    def cell_of(self, position: int) -> int:
        """Returns the cell at a position of the canvas; -1 if there is none."""
        return position

    def position_of(self, cell: int) -> int:
        """Returns the position of a cell on the canvas; -1 if there is none."""
        return cell

    def cell_value(self, _index: int) -> str:
        """Returns the content of an editable cell; empty for other cells."""
        return ""

    def cell_details(self, index: int) -> list[str]:
        """Returns further facts about a cell, one in each line."""
        raise NotImplementedError

    def cell_text(self, index: int) -> list[str]:
        """Returns the lines of a cell's tool tip. Raises IndexError outside the grid."""
        return [self.cell_name(index), *self.cell_details(index)]

    def set_still(self, still: bool) -> None:
        """Set whether changes are never tinted, even if motion is not reduced; a running tint ends."""
        self._is_still = still
        self._end_motion()

    @property
    def _moves(self) -> bool:
        return not (self._is_still or motion.is_reduced())

    @Slot()
    def _end_motion(self) -> None:
        if self._tinted and not self._moves:
            self._stop_fade()
            self.update()

    def _start_fade(self, changed: Mapping[int, CellState]) -> None:
        """Tints these cells and fades the tint out. Without changed cells an earlier fade continues."""
        if changed and self._moves:
            self._tinted, self._tint = changed, 1.0
            self._fade.stop()
            self._fade.start()

    def _stop_fade(self) -> None:
        self._fade.stop()
        self._tinted, self._tint = {}, 0.0

    @Slot("QVariant")
    def _on_fade(self, value: float) -> None:
        level = math.ceil(value * TINT_LEVELS) / TINT_LEVELS
        if level != self._tint:
            self._tint = level
            self._update_cells(self._tinted)

    def _update_cells(self, _indices: Iterable[int]) -> None:
        """Repaints some cells. This default repaints the whole widget."""
        self.update()

    @property
    def selected(self) -> int:
        """The selected cell; -1 for none."""
        return self._selected

    @selected.setter
    def selected(self, index: int) -> None:
        self._select(index)

    @property
    def hovered(self) -> int:
        """The cell under the pointer, here or in another view of the same cells; -1 for none."""
        return self._hovered

    @hovered.setter
    def hovered(self, index: int) -> None:
        self._hover(index)

    def _select(self, index: int) -> None:
        index = index if 0 <= index < self.grid.count else -1
        if index != self._selected:
            if min(index, self._selected) < 0:
                self.update()  # the focus ring around the whole grid appears or disappears
            self._update_cells((index, self._selected))
            self._selected = index
            self.cellSelected.emit(index)
            if not self._is_led:
                self.positionSelected.emit(self.position_of(index))

    def _hover(self, index: int) -> None:
        index = index if 0 <= index < self.grid.count else -1
        if index != self._hovered:
            self._update_cells((index, self._hovered))
            self._hovered = index
            self.cellHovered.emit(index)
            if not self._is_led:
                self.positionHovered.emit(self.position_of(index))

    @Slot(int)
    def select_position(self, position: int) -> None:
        """Selects the position that was selected in another view of the canvas."""
        self._is_led = True
        self._select(self.cell_of(position))
        self._is_led = False

    @Slot(int)
    def point_at(self, position: int) -> None:
        """Marks the position under the pointer in another view of the canvas."""
        self._is_led = True
        self._hover(self.cell_of(position))
        self._is_led = False

    def _cell_under(self, event: QMouseEvent) -> int:
        return self.grid.cell_at(event.position().x(), event.position().y())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self._cell_under(event))

    def leaveEvent(self, _event: QEvent) -> None:
        self._hover(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._select(self._cell_under(event))
        else:
            super().mousePressEvent(event)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFocusEvent):
            self.update()
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            index = self.grid.cell_at(event.pos().x(), event.pos().y())
            if index < 0:
                show_tip(event, self.legend_tip(event.pos()), self)
            else:
                show_tip(event, "\n".join(self.cell_text(index)), self, QRect(*self.grid.rect_of(index)))
            return True
        return super().event(event)

    def legend_tip(self, _point: QPoint) -> str:
        """Returns what the legend's entry at a point means; empty without a legend."""
        return ""

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
            self._paint(painter, event.rect())

    def _paint(self, painter: QPainter, area: QRect) -> None:
        """Paints everything in ``area``, including the background."""
        raise NotImplementedError
