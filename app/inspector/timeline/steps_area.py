"""The base of charts over the steps of a block: columns, the cursor at the current frame, going to a step.

Everything is painted into the viewport, so that the names of rows and steps stay visible while the rest scrolls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, Slot
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetrics,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from app.design import themes
from app.design.controls import show_tip
from app.design.focus_rings import is_ringed
from app.design.fonts import caption_font, px
from app.design.tokens import color
from app.player.player import Player
from app.state.run.replay import NOISE, BlockRecord, Frame
from engine import step_number


class StepsArea(QAbstractScrollArea):
    """The base class of charts over steps. A subclass sets the widths of columns, and paints."""

    def __init__(self, player: Player, least: int, most: int, parent: QWidget | None = None) -> None:
        """Columns are ``least`` to ``most`` logical pixels wide at 100 %."""
        super().__init__(parent)
        self.player = player
        self._least, self._most = least, most
        self.record: BlockRecord | None = None  # the current block
        self._cursor: QRect | None = None  # its last painted rectangle in the viewport
        self.column = px(least)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.horizontalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        player.placed.connect(self._follow)
        player.grown.connect(self._reload)
        player.opened.connect(self._load_run)
        themes.changed.connect(self._reload)

    def gutter(self) -> int:
        """Returns the width of the fixed part on the left, in pixels."""
        return px(32)

    def tail(self) -> int:
        """Returns the space after the last column, in pixels."""
        return 0

    def content_height(self) -> int:
        """Returns the height of the content that scrolls vertically, in pixels, at the present width."""
        return 0

    def top(self) -> int:
        """Returns the height of the fixed part at the top, in pixels."""
        return 0

    def has_columns(self) -> bool:
        """True if there are columns to scroll."""
        return self.record is not None

    def load(self) -> None:
        """Called when ``record`` has changed: another block, or more steps of it."""

    def describe(self) -> None:
        """Called after each change, to update the accessible description."""

    def paint(self, painter: QPainter, clip: QRect) -> None:
        """Paints the viewport within ``clip``."""

    def tip_at(self, _point: QPoint) -> str:
        """Returns the tool tip at a point of the viewport; empty for none."""
        return ""

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            show_tip(event, self.tip_at(event.pos()), self)
            return True
        return super().viewportEvent(event)

    @property
    def steps(self) -> int:
        return 0 if self.record is None else self.record.steps

    def x_of(self, step: int) -> int:
        """Returns the left edge of a step's column in the viewport."""
        return self.gutter() + step * self.column - self.horizontalScrollBar().value()

    def step_at(self, x: float) -> int:
        """Returns the step at ``x`` in the viewport, or -1."""
        if x < self.gutter():
            return -1
        step = int((x - self.x_of(0)) // self.column)
        return step if 0 <= step < self.steps else -1

    def cursor_rect(self) -> QRect | None:
        """Returns the column of the current frame: a thin one before the first for noise, after the last for commit."""
        frame = self.player.frame
        if frame is None or self.record is None or frame.block != self.record.index:
            return None
        height = self.viewport().height()
        if NOISE < frame.step < self.steps:
            return QRect(self.x_of(frame.step), 0, self.column, height)
        edge = self.x_of(max(frame.step, 0)) - (0 if frame.step == NOISE else 1)
        return QRect(edge - 1, 0, 3, height)

    def paint_cursor(self, painter: QPainter, rect: QRect, edge: QColor) -> None:
        """Paints the cursor: two lines under a cap, or one line at the noise and at the commit."""
        if rect.width() > 3:
            for x in (rect.left() - 1, rect.right()):
                painter.fillRect(x, rect.top(), 1, rect.height(), edge)
        else:
            painter.fillRect(rect.left() + 1, rect.top(), 1, rect.height(), edge)
        painter.fillRect(rect.left() - 1, rect.top(), rect.width() + 1, px(4), color(themes.current().accent))

    def paint_ring(self, painter: QPainter) -> None:
        if is_ringed(self):
            ring = color(themes.current().focus)
            width, height = self.viewport().width(), self.viewport().height()
            for side in ((0, 0, width, 2), (0, height - 2, width, 2), (0, 0, 2, height), (width - 2, 0, 2, height)):
                painter.fillRect(*side, ring)

    def paint_step_numbers(self, painter: QPainter, y: int, height: int, clip: QRect) -> None:
        """Paints the numbers of steps over their columns, as many as fit."""
        metrics = QFontMetrics(caption_font())
        wide = metrics.horizontalAdvance("000")
        every = next((n for n in (1, 2, 5, 10, 20, 50) if n * self.column >= wide), 100)
        painter.setFont(caption_font())
        painter.setPen(color(themes.current().faint_ink))
        for step in range(self.steps):
            if step and (step_number(step) % every or 2 * step <= every):  # the first, and multiples not too near to it
                continue
            middle = self.x_of(step) + self.column // 2
            if middle < self.gutter() or middle + wide < clip.left() or middle - wide > clip.right():
                continue
            place = QRect(middle - wide, y, 2 * wide, height)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, str(step_number(step)))

    @Slot()
    def _load_run(self) -> None:
        """Loads another run and scrolls back to its top left corner."""
        self._reload()
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.setValue(0)
        self.show_cursor()

    @Slot()
    def _reload(self) -> None:
        self.record = self.player.block
        self.load()
        self.relayout()
        self._cursor = self.cursor_rect()
        self.describe()
        self.viewport().update()

    @Slot(int)
    def _follow(self, _place: int) -> None:
        if self.player.block is not self.record:
            self._reload()
            return
        self.show_cursor()
        now = self.cursor_rect()
        for rect in (self._cursor, now):
            if rect is not None:
                self.viewport().update(rect.adjusted(-2, 0, 2, 0))
        self._cursor = now
        self.describe()

    def show_cursor(self) -> None:
        """Scrolls until the current frame is visible."""
        rect, bar = self.cursor_rect(), self.horizontalScrollBar()
        if rect is None or not bar.maximum():
            return
        left, right = self.gutter(), self.viewport().width()
        if rect.left() < left:
            bar.setValue(bar.value() + rect.left() - left - self.column)
        elif rect.right() > right:
            bar.setValue(bar.value() + rect.right() - right + self.column)

    def relayout(self) -> None:
        """Fits the columns and the scroll bars to the size."""
        view = self.viewport().size()
        room = view.width() - self.gutter() - self.tail()
        self.column = max(px(self._least), min(room // max(self.steps, 1), px(self._most)))
        wide = self.gutter() + self.steps * self.column + self.tail()
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        across.setRange(0, max(0, wide - view.width()) if self.has_columns() else 0)
        across.setPageStep(view.width())
        across.setSingleStep(self.column)
        room_down = view.height() - self.top()
        down.setRange(0, max(0, self.content_height() - room_down))
        down.setPageStep(max(room_down, 1))
        down.setSingleStep(px(16))

    def _scrolled(self) -> None:
        self._cursor = self.cursor_rect()
        self.viewport().update()

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self.relayout()
        self._cursor = self.cursor_rect()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        region = cast("Iterable[QRect]", event.region())  # iterable, though Qt's stubs do not say so
        for rect in region:  # part by part: their bounding rectangle may be much larger
            painter.setClipRect(rect)
            self.paint(painter, rect)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFocusEvent):
            self.viewport().update()
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.go_to_step(self.step_at(event.position().x()))
        else:
            super().mousePressEvent(event)

    def go_to_step(self, step: int) -> None:
        """Shows a step of the current block; -1 does nothing."""
        if self.record is not None and self.player.replay is not None and 0 <= step < self.steps:
            self.player.pause()
            self.player.go(self.player.replay.place(Frame(self.record.index, step)))
