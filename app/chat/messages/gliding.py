"""A canvas becomes text: each token glides from its cell to its own place in the text that is laid out.

Nothing is drawn twice. While tokens are under way, the text leaves its place to a picture of it from which they are cut
out. What stays of the canvas, its ground and the signs that nobody reads, fades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QEasingCurve, QPoint, QPointF, QRect, QRectF, QSize, Qt, QVariantAnimation, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from app.canvas.view import CanvasView
from app.chat.prose.widget import Prose
from app.design import themes
from app.design.tokens import FADE_MS, color

REACH = 400
"""Pixels above and below what is in sight; as much may come into sight meanwhile."""


class Flight(NamedTuple):
    """A token's way, in the coordinates of the ground that canvas and text stand on."""

    start: QPointF  # where its letters were: the left edge, at half of their height
    end: QRect  # where they are in the text


@dataclass
class Leaving:
    """A canvas as it stood before text took its place."""

    first: int  # where its first token is in the answer
    at: QPoint  # of the picture on the ground
    picture: QPixmap  # of what is in sight
    cells: list[QRect]  # within the picture
    letters: list[QPointF]  # of each cell, on the ground
    empty: QColor  # of a cell without anything in it

    @staticmethod
    def of(view: CanvasView, first: int) -> Leaving:
        at = view.mapTo(ground_of(view), QPoint())
        cells_only = QRect(0, 0, view.width(), view.grid.legend_top or view.height())  # the next canvas has the legend
        seen = view.visibleRegion().boundingRect() & cells_only
        cells = [QRect(*cell).translated(-seen.topLeft()) for cell in view.grid.cells]
        letters = [view.letters_at(index) + at for index in range(len(cells))]
        empty = color(themes.current().surface_sunken)
        return Leaving(first, at + seen.topLeft(), view.grab(seen), cells, letters, empty)


def ground_of(widget: QWidget) -> QWidget:
    """What scrolls with a widget: the content of the area that it is in, or else its window."""
    here = widget
    while (parent := here.parentWidget()) is not None and not isinstance(parent.parentWidget(), QAbstractScrollArea):
        here = parent
    return here


class Gliding(QWidget):
    """Lies over the ground for as long as tokens are under way; lets the pointer through and is not read out."""

    def __init__(self, prose: Prose, leaving: Sequence[Leaving], rects: Mapping[int, QRectF]) -> None:
        """``rects`` has where tokens of the answer stand in ``prose``."""
        ground = ground_of(prose)
        super().__init__(ground)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._prose, self._canvases = prose, leaving
        near, corner = (
            ground.visibleRegion().boundingRect().adjusted(0, -REACH, 0, REACH),
            prose.mapTo(ground, QPoint()),
        )
        self._home = near & QRect(corner, prose.size())  # of what the text lends
        self.flights = self._flights(rects, corner)
        self._letters = prose.lend(self._home.translated(-corner))
        taken = [flight.end.translated(-self._home.topLeft()) for flight in self.flights]
        self.rest = _filled(self._letters, taken, QColor(Qt.GlobalColor.transparent))  # of the text, without those
        area = self._home
        for canvas in leaving:
            area = area.united(QRect(canvas.at, _size(canvas.picture)))
        self.setGeometry(area)
        self._motion = QVariantAnimation(self)
        self._motion.setDuration(FADE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.setStartValue(0.0)
        self._motion.setEndValue(1.0)
        self._motion.valueChanged.connect(self.update)
        self._motion.finished.connect(self.land)
        prose.destroyed.connect(self._motion.stop)  # and then there is nowhere to land
        prose.destroyed.connect(self.deleteLater)  # its parent is the ground
        self.show()
        self.raise_()
        self._motion.start()

    def _flights(self, rects: Mapping[int, QRectF], corner: QPoint) -> list[Flight]:
        """The ways of the tokens whose places are in sight; their cells are emptied in the canvases' pictures."""
        found = []
        for canvas in self._canvases:
            emptied = []
            for index, (cell, letters) in enumerate(zip(canvas.cells, canvas.letters, strict=True)):
                rect = rects.get(canvas.first + index)
                if rect is None:
                    continue
                emptied.append(cell)
                end = _whole(rect).translated(corner)
                if end.intersects(self._home):
                    found.append(Flight(letters, end))
            canvas.picture = _filled(canvas.picture, emptied, canvas.empty)
        return found

    @Slot()
    def land(self) -> None:
        """All tokens are where they belong."""
        self._motion.stop()
        self._prose.lend(QRect())
        self.hide()
        self.deleteLater()

    def paintEvent(self, _event: QPaintEvent) -> None:
        done = float(self._motion.currentValue())
        painter = QPainter(self)
        painter.translate(-self.pos())
        painter.setOpacity(1.0 - done)
        for canvas in self._canvases:
            painter.drawPixmap(canvas.at, canvas.picture)
        painter.setOpacity(1.0)
        painter.drawPixmap(self._home.topLeft(), self.rest)
        scale = self._letters.devicePixelRatio()
        for start, end in self.flights:
            begin = start - QPointF(0, end.height() / 2)
            place = begin + (QPointF(end.topLeft()) - begin) * done
            source = QRectF(end.translated(-self._home.topLeft()))
            cut = QRectF(source.topLeft() * scale, source.size() * scale)
            painter.drawPixmap(QRectF(place, source.size()), self._letters, cut)
        painter.end()


def _whole(rect: QRectF) -> QRect:
    """In whole pixels; neighbours still touch and do not overlap."""
    left, rows = round(rect.left()), rect.toAlignedRect()
    return QRect(left, rows.top(), round(rect.right()) - left, rows.height())


def _size(picture: QPixmap) -> QSize:
    return picture.deviceIndependentSize().toSize()


def _filled(picture: QPixmap, places: Sequence[QRect], shade: QColor) -> QPixmap:
    """A copy in which some places have one colour, which may be none."""
    if not places:
        return picture
    made = QPixmap(picture)
    painter = QPainter(made)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
    for place in places:
        painter.fillRect(place, shade)
    painter.end()
    return made
