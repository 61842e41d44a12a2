"""Animates a canvas becoming text: each token glides from its cell to its place in the laid-out text.

During the animation the text is drawn from a picture with the moving tokens cut out, so that no token appears twice.
The rest of the canvas, its background and special tokens, fades out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QEasingCurve, QPoint, QPointF, QRect, QRectF, Qt, QVariantAnimation, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from app.canvas.view import CanvasView
from app.chat.prose.widget import Prose
from app.design import themes
from app.design.tokens import FADE_MS, color

REACH = 400
"""Pixels above and below the visible area that are included, since scrolling may reveal them."""


class Flight(NamedTuple):
    """A token's start and end, in the coordinates of the widget that contains both canvas and text."""

    start: QPointF  # in the canvas: left edge of its letters, at half their height
    end: QRect  # in the text


@dataclass
class Leaving:
    """A picture of a canvas before text replaced it."""

    first: int  # index of its first token in the answer
    at: QPoint  # top left of the picture, in the ground's coordinates
    picture: QPixmap  # of the visible part
    cells: list[QRect]  # in the picture's coordinates
    letters: list[QPointF]  # where each cell's letters begin, in the ground's coordinates
    empty: QColor  # colour of an empty cell

    @staticmethod
    def of(view: CanvasView, first: int) -> Leaving:
        at = view.mapTo(ground_of(view), QPoint())
        cells_only = QRect(0, 0, view.width(), view.grid.legend_top or view.height())  # without the legend
        seen = view.visibleRegion().boundingRect() & cells_only
        cells = [QRect(*cell).translated(-seen.topLeft()) for cell in view.grid.cells]
        letters = [view.letters_at(index) + at for index in range(len(cells))]
        empty = color(themes.current().surface_sunken)
        return Leaving(first, at + seen.topLeft(), view.grab(seen), cells, letters, empty)


def ground_of(widget: QWidget) -> QWidget:
    """Returns the content widget of the scroll area that a widget is in, or else its window."""
    here = widget
    while (parent := here.parentWidget()) is not None and not isinstance(parent.parentWidget(), QAbstractScrollArea):
        here = parent
    return here


class Gliding(QWidget):
    """Covers the ground during the animation; lets the pointer through and is hidden from screen readers."""

    def __init__(self, prose: Prose, leaving: Sequence[Leaving], rects: Mapping[int, QRectF]) -> None:
        """Starts the animation. ``rects`` maps indices of the answer's tokens to their places in ``prose``."""
        ground = ground_of(prose)
        super().__init__(ground)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._prose, self._canvases = prose, leaving
        near = ground.visibleRegion().boundingRect().adjusted(0, -REACH, 0, REACH)
        corner = prose.mapTo(ground, QPoint())
        self._home = near & QRect(corner, prose.size())  # the part of the text that is drawn here
        self.flights = self._flights(rects, corner)
        self._letters = prose.lend(self._home.translated(-corner))
        taken = [flight.end.translated(-self._home.topLeft()) for flight in self.flights]
        self.rest = _filled(self._letters, taken, QColor(Qt.GlobalColor.transparent))  # the text without them
        area = self._home
        for canvas in leaving:
            area = area.united(QRect(canvas.at, canvas.picture.deviceIndependentSize().toSize()))
        self.setGeometry(area)
        self._motion = QVariantAnimation(self)
        self._motion.setDuration(FADE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.setStartValue(0.0)
        self._motion.setEndValue(1.0)
        self._motion.valueChanged.connect(self.update)
        self._motion.finished.connect(self.land)
        prose.destroyed.connect(self._motion.stop)  # ``land`` needs the text
        prose.destroyed.connect(self.deleteLater)  # its parent, the ground, lives on
        self.show()
        self.raise_()
        self._motion.start()

    def _flights(self, rects: Mapping[int, QRectF], corner: QPoint) -> list[Flight]:
        """Returns a flight for each token with a visible place, and erases tokens from the canvases' pictures."""
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
        """Ends the animation: the text draws itself again, and this widget deletes itself."""
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
    """Rounds to whole pixels such that neighbours still touch and do not overlap."""
    left, rows = round(rect.left()), rect.toAlignedRect()
    return QRect(left, rows.top(), round(rect.right()) - left, rows.height())


def _filled(picture: QPixmap, places: Sequence[QRect], shade: QColor) -> QPixmap:
    """Returns a copy in which some rectangles are filled with a colour, which may be transparent."""
    if not places or picture.isNull():  # nothing of the text is in sight
        return picture
    made = QPixmap(picture)
    painter = QPainter(made)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
    for place in places:
        painter.fillRect(place, shade)
    painter.end()
    return made
