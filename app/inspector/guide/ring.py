"""A ring around a widget, or a part of it, that follows it when it moves. It takes no clicks."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.design import themes
from app.design.tokens import RADIUS, color
from app.system.timers import later

MARGIN, WIDTH = 4, 2  # pixels around the part, and of the line
_MOVES = (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide)


def whole(target: QWidget) -> QRect:
    """Returns the visible part of a widget, in its own coordinates; empty if nothing of it is visible."""
    return target.visibleRegion().boundingRect()


class Ring(QWidget):
    """Lies over ``host``, above its other children."""

    def __init__(self, host: QWidget) -> None:
        super().__init__(host)
        self._host = host
        self._target: QWidget | None = None
        self._part: Callable[[QWidget], QRect] = whole
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._placing = later(self, self._place)
        self.hide()

    @property
    def target(self) -> QWidget | None:
        """The ringed widget."""
        return self._target

    def surround(self, target: QWidget | None, part: Callable[[QWidget], QRect] = whole) -> None:
        """Rings a descendant of the host, or the part of it that ``part`` returns; None removes the ring."""
        if target is not None and (target, part) == (self._target, self._part):
            self._placing.start()
            return
        for widget in self._watched:
            widget.removeEventFilter(self)
        self._watched = []
        self._target, self._part = target, part
        while target is not None:
            target.installEventFilter(self)
            self._watched.append(target)
            target = None if target is self._host else target.parentWidget()
        self._place()
        self._placing.start()  # again once the layout has settled

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in _MOVES:
            self._placing.start()
        return False

    @Slot()
    def _place(self) -> None:
        target = self._target
        part = QRect() if target is None or not target.isVisible() else self._part(target)
        if target is None or part.isEmpty():
            self.hide()
            return
        corner = target.mapTo(self._host, QPoint())
        self.setGeometry(part.translated(corner).adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN))
        self.show()
        self.raise_()

    def paintEvent(self, _event: QPaintEvent) -> None:
        inset = WIDTH / 2
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(color(themes.current().accent), WIDTH))
        painter.drawRoundedRect(self.rect().toRectF().adjusted(inset, inset, -inset, -inset), RADIUS, RADIUS)
        painter.end()
