"""The run as one line with a place for every frame, and marks of block ends, early stops and remelt bursts."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Slot
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractSlider, QSizePolicy, QToolTip, QWidget

from app.design import themes
from app.design.controls import folded
from app.design.focus_rings import is_ringed
from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.tokens import color
from app.inspector.timeline.overview import Overview
from app.inspector.words import facts
from app.player.player import Player
from app.state.run.replay import Frame
from app.system.i18n import tr

MARGIN = 12  # pixels at both ends, for the handle
TRACK = 6
LEAST_LABEL = 48  # least pixels between two blocks' numbers
LABEL_GAP = 10  # pixels after a label


class Timeline(QAbstractSlider):
    """A slider over the frames: click or drag to go, hover for a frame's facts. The page handles its keys."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player, self._overview = player, overview
        self._pointed = -1
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Timeline"))
        self.setAccessibleDescription(tr("Every step of the run. The arrow keys go to the one before or after."))
        self.setSingleStep(1)
        self._resize_labels()
        player.opened.connect(self._on_frames)
        player.grown.connect(self._on_frames)
        player.placed.connect(self._on_placed)
        overview.known.connect(self._on_known)
        self.valueChanged.connect(player.go)
        themes.changed.connect(self._resize_labels)

    @Slot()
    def _resize_labels(self) -> None:
        self._label = ui_font()
        self._label.setPixelSize(px(TEXT_SMALL))
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(400, 30 + px(TEXT_SMALL) + 4)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())

    @property
    def _frames(self) -> list[Frame]:
        return [] if self._player.replay is None else self._player.replay.frames

    @property
    def _reads(self) -> int:
        """The number of reads of a decision; 0 for other runs."""
        return 0 if self._player.replay is None else self._player.replay.read_count

    @Slot()
    def _on_frames(self) -> None:
        self.blockSignals(True)
        self.setRange(0, max(0, len(self._frames) - 1))
        self.setValue(self._player.place)
        self.blockSignals(False)
        self.update()

    @Slot(int)
    def _on_placed(self, place: int) -> None:
        before = self.x_of(self.value())
        if place > self.maximum():
            self._on_frames()
        self.setValue(place)
        after = self.x_of(place)
        for x in (before, after):
            self.update(QRect(round(x) - 12, 0, 24, self.height()))
        lower, upper = sorted((before, after))
        self.update(QRect(round(lower), self._middle - TRACK, round(upper - lower) + 1, 2 * TRACK))

    @Slot(int)
    def _on_known(self, _block: int) -> None:
        self.update()

    @property
    def _middle(self) -> int:
        return 18

    def x_of(self, place: int) -> float:
        """Returns a frame's place, in pixels from the left."""
        return MARGIN + (self.width() - 2 * MARGIN) * (place / max(1, self.maximum()))

    def place_at(self, x: float) -> int:
        """Returns the frame nearest to ``x``."""
        share = (x - MARGIN) / max(1, self.width() - 2 * MARGIN)
        return max(0, min(round(share * self.maximum()), self.maximum()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._frames:
            self._player.pause()
            self._player.go(self.place_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not self._frames:
            return
        place = self.place_at(event.position().x())
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._player.go(place)
        self._point(place, event.globalPosition().toPoint())

    def wheelEvent(self, event: QWheelEvent) -> None:
        turned = event.angleDelta().y() or event.angleDelta().x()
        if turned:
            self._player.step(-1 if turned > 0 else 1)
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        self._point(-1, QPoint())
        super().leaveEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()  # the page handles these keys

    def _point(self, place: int, where: QPoint) -> None:
        if place == self._pointed:
            return
        for old in (self._pointed, place):
            if old >= 0:
                self.update(QRect(round(self.x_of(old)) - 2, 0, 5, self.height()))
        self._pointed = place
        if place < 0:
            QToolTip.hideText()
        else:
            QToolTip.showText(where, folded(*self.facts(place)), self)

    def facts(self, place: int) -> list[str]:
        """Returns the facts of a frame for its tool tip, one in each line."""
        frame = self._frames[place]
        return facts(frame, self._overview.steps[frame.block], self._overview[frame.block], self._reads)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, middle = themes.current(), self._middle
        left, right = self.x_of(0), self.x_of(self.maximum())
        painter.fillRect(QRectF(left, middle - 1, right - left, 2), color(theme.line_strong))
        if self._frames:
            here = self.x_of(self.value())
            painter.fillRect(QRectF(left, middle - 1, here - left, 2), color(theme.accent))
            self._paint_blocks(painter, event.rect())
            if self._pointed >= 0:
                painter.fillRect(QRectF(self.x_of(self._pointed) - 0.5, 4, 1, 28), color(theme.faint_ink))
            painter.setPen(QPen(color(theme.surface), 2))
            painter.setBrush(color(theme.ink))
            painter.drawEllipse(QPointF(here, middle), 8, 8)
        if is_ringed(self):
            painter.setPen(QPen(color(theme.focus), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        painter.end()

    def _paint_blocks(self, painter: QPainter, clip: QRect) -> None:
        replay = self._player.replay
        assert replay is not None
        theme, middle = themes.current(), self._middle
        painter.setFont(QFont(self._label))
        last_label = free_from = -1e9
        for block, steps in enumerate(self._overview.steps):
            first = replay.first_of(block)
            start, end = self.x_of(first), self.x_of(first + steps + (1 if replay.committed(block) else 0))
            if start - last_label >= LEAST_LABEL:
                last_label = start
                first_text = tr("read {number}", number=1) if self._reads else tr("block {number}", number=1)
                free_from = self._write(painter, start, str(block + 1) if block else first_text)
            if end < clip.left() - 12 or start > clip.right() + 12:
                continue
            painter.fillRect(QRectF(start - 0.5, middle - 5, 1, 10), color(theme.line_strong))
            if replay.committed(block):
                painter.fillRect(QRectF(end - 1, middle - 8, 2, 16), color(theme.faint_ink))
            figures = self._overview[block]
            if figures is None:
                continue
            flags = [(one.step, tr("round {number}", number=one.number + 1)) for one in figures.rounds]
            for step, text in flags:
                x = self.x_of(first + 1 + step)
                self._flag(painter, x)
                if min(x, self.width() - painter.fontMetrics().horizontalAdvance(text) - 4) >= free_from:
                    free_from = self._write(painter, x, text)
            shade = color(theme.remelted)
            most = max(1, int(figures.remelts.max(initial=1)))
            for step in figures.bursts.tolist():
                high = 3 + 7 * figures.remelts[step] / most
                painter.fillRect(QRectF(self.x_of(first + 1 + step) - 1.5, middle - 4 - high, 3, high), shade)
            if figures.stopped_early and replay.committed(block):
                self._diamond(painter, end)

    def _write(self, painter: QPainter, x: float, text: str) -> float:
        """Writes a label under the line, kept inside the widget. Returns where the next label may begin."""
        width = painter.fontMetrics().horizontalAdvance(text)
        painter.setPen(color(themes.current().faint_ink))
        painter.drawText(QPointF(min(x, self.width() - width - 4), self.height() - 5), text)
        return x + width + LABEL_GAP

    def _flag(self, painter: QPainter, x: float) -> None:
        """Marks the beginning of a round: a triangle under the line that points at it."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(themes.current().given))
        y = self._middle + 4
        painter.drawPolygon(QPolygonF([QPointF(x, y), QPointF(x + 4, y + 7), QPointF(x - 4, y + 7)]))

    def _diamond(self, painter: QPainter, x: float) -> None:
        y = self._middle - 13
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(themes.current().accepted))
        points = ((x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y))
        painter.drawPolygon(QPolygonF([QPointF(*point) for point in points]))

    def sliderChange(self, _change: QAbstractSlider.SliderChange) -> None:
        """Does nothing: Qt would repaint all, while ``_on_placed`` repaints only the changed part."""


class TimelineKey(QWidget):
    """The key of the timeline's marks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._has_rounds = False
        self.setAccessibleName(", ".join(self._texts()))
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def show_rounds(self, has_rounds: bool) -> None:
        """Adds or removes the explanation of rounds."""
        if has_rounds != self._has_rounds:
            self._has_rounds = has_rounds
            self.setAccessibleName(", ".join(self._texts()))
            self.updateGeometry()
            self.update()

    def _texts(self) -> tuple[str, ...]:
        usual = tr("end of a block"), tr("stopped early"), tr("many taken back at once")
        return (*usual, tr("a round begins")) if self._has_rounds else usual

    def _font(self) -> QFont:
        font = ui_font()
        font.setPixelSize(px(TEXT_SMALL))
        return font

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self._font())
        width = sum(metrics.horizontalAdvance(text) + 16 + 20 for text in self._texts())
        return QSize(width, px(TEXT_SMALL) + 12)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._font())
        theme, x, middle = themes.current(), 4.0, self.height() / 2
        for kind, text in enumerate(self._texts()):
            painter.setPen(Qt.PenStyle.NoPen)
            if kind == 0:
                painter.fillRect(QRectF(x + 3, middle - 7, 2, 14), color(theme.faint_ink))
            elif kind == 1:
                painter.setBrush(color(theme.accepted))
                points = ((x + 4, middle - 5), (x + 9, middle), (x + 4, middle + 5), (x - 1, middle))
                painter.drawPolygon(QPolygonF([QPointF(*point) for point in points]))
            elif kind == 2:
                painter.fillRect(QRectF(x + 2, middle - 5, 3, 10), color(theme.remelted))
            else:
                painter.setBrush(color(theme.given))
                corners = ((x + 4, middle - 4), (x + 8, middle + 3), (x, middle + 3))
                painter.drawPolygon(QPolygonF([QPointF(*corner) for corner in corners]))
            painter.setPen(color(theme.faint_ink))
            painter.drawText(QPointF(x + 16, middle + painter.fontMetrics().ascent() / 2 - 1), text)
            x += painter.fontMetrics().horizontalAdvance(text) + 16 + 20
        painter.end()
