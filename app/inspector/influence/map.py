"""A canvas with cells coloured by the change of their distributions (KL). Independent of the measurement."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PySide6.QtCore import QRect, QSignalBlocker, QSize, Qt, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.canvas.accessibility import expose_cells
from app.canvas.geometry import Geometry
from app.canvas.glyphs import CellGlyphs, Glyph
from app.canvas.grid_view import GridView
from app.design import themes
from app.design.fonts import TEXT_BODY, canvas_font, px
from app.design.tokens import color, entropy_color, readable_on
from app.inspector.influence.scale import FLOOR, ShownInfluence
from app.inspector.words import Name, capital, in_nats
from app.system.i18n import tr


class InfluenceMap(GridView):
    """A grid of cells with their tokens, in rows that end with the lines of the text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._glyphs = CellGlyphs(canvas_font(TEXT_BODY))
        self._influence: ShownInfluence | None = None
        self._texts: list[Glyph] = []
        self._ends: tuple[int, ...] = ()
        self._name: Name = str
        self._grid = self._lay_out(max(self.width(), 1))
        self._grow_by_width(QSizePolicy.Policy.Minimum)
        self.setAccessibleName(tr("What depends on the token, cell by cell"))
        expose_cells(self)
        themes.changed.connect(self._resize)

    def show_influence(self, influence: ShownInfluence, texts: list[Glyph], ends: tuple[int, ...], name: Name) -> None:
        """Shows a measurement. ``texts`` are the glyphs of all positions; lines end after the positions in ``ends``."""
        self._influence, self._texts, self._ends, self._name = influence, texts, ends, name
        self._relay()

    def light(self, selected: int, hovered: int) -> None:
        """Frames the selected and the hovered cell; -1 for none."""
        with QSignalBlocker(self):  # the choice was made in another view
            self.selected, self.hovered = selected, hovered

    @property
    def grid(self) -> Geometry:
        return self._grid

    def _update_cells(self, indices: Iterable[int]) -> None:
        bounds = self._grid.bounds(indices, 4)
        if bounds is not None:
            self.update(QRect(*bounds))

    def _lay_out(self, width: int) -> Geometry:
        widest = self._glyphs.cell_width([glyph.text for glyph in self._texts], self._glyphs.cell_width(["00"]))
        return Geometry.from_width(width, len(self._texts), widest, self._glyphs.cell_height(), ends=self._ends)

    @Slot()
    def _resize(self) -> None:
        self._glyphs = CellGlyphs(canvas_font(TEXT_BODY))
        self._relay()

    def _relay(self) -> None:
        self._grid = self._lay_out(max(self.width(), 1))
        self.updateGeometry()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._grid = self._lay_out(max(self.width(), 1))

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._lay_out(width).height

    def sizeHint(self) -> QSize:
        return QSize(px(420), self.heightForWidth(max(self.width(), px(200))))

    def _paint(self, painter: QPainter, area: QRect) -> None:
        theme, grid = themes.current(), self._grid
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)  # frames are aligned to whole pixels
        painter.fillRect(area, color(theme.surface_sunken))
        if self._influence is None:
            return
        shares = self._influence.shares()
        painter.setFont(self._glyphs.font)
        for place, rect in enumerate(grid.cells):
            cell = QRect(*rect)
            if not cell.intersects(area):
                continue
            glyph = self._texts[place]
            if place == self._influence.position:
                self._paint_changed(painter, cell)
                ink = color(theme.ink)
            else:
                moved = not np.isnan(shares[place])
                shade = entropy_color(float(shares[place]), theme) if moved else color(theme.surface_sunken)
                painter.fillRect(cell, shade)
                ink = readable_on(shade) if moved else color(theme.faint_ink)
            painter.setPen(ink)
            text = glyph.text or "∎"
            face = "small" if glyph.kind == "sign" else "plain"
            layout, width, ascent = self._glyphs.layout(text, face, rect.width - 4)
            left = rect.x + (rect.width - width) / 2
            painter.setFont(self._glyphs.faces[face])
            painter.drawStaticText(round(left), round(rect.y + self._glyphs.baseline(rect.height) - ascent), layout)
        self._paint_frames(painter)

    def _paint_changed(self, painter: QPainter, cell: QRect) -> None:
        """Paints the changed cell without a colour of the scale, in a dashed outline."""
        painter.fillRect(cell, color(themes.current().surface_raised))
        painter.setPen(QPen(color(themes.current().accent), 2, Qt.PenStyle.DashLine))
        painter.drawRect(cell.adjusted(1, 1, -1, -1))

    def _paint_frames(self, painter: QPainter) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        shade = color(themes.current().focus if self.hasFocus() else themes.current().ink)
        for place, width in ((self._hovered, 1), (self._selected, 2)):
            if 0 <= place < self._grid.count:
                painter.setPen(QPen(shade, width))
                painter.drawRect(QRect(*self._grid.rect_of(place)).adjusted(-1, -1, 0, 0))
        if self.hasFocus():
            painter.setPen(QPen(shade, 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._cell_under(event) >= 0:
            super().mousePressEvent(event)
        else:
            event.ignore()  # keeps the selection

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Moves with Up and Down, and with any arrow key and Ctrl. Left and Right without Ctrl belong to the page."""
        moves = {Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1)}
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            moves |= {Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0)}
        key = Qt.Key(event.key())
        if self._grid.count and key in moves:
            self.selected = self._grid.moved(self._selected, *moves[key]) if self._selected >= 0 else 0
        else:
            super().keyPressEvent(event)

    def cell_name(self, index: int) -> str:
        if self._influence is None:
            raise IndexError("nothing was measured")
        cell = capital(self._name(index))
        if index == self._influence.position:
            return tr("{cell}: its token was changed.", cell=cell)
        moved = float(self._influence.kl[index])
        if moved < FLOOR:
            return tr("{cell} does not change.", cell=cell)
        return tr("{cell} changes by {nats} nats.", cell=cell, nats=in_nats(moved))

    def cell_details(self, _index: int) -> list[str]:
        return []
