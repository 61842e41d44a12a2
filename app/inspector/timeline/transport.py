"""The controls of the player: buttons, speed, the timeline, and the current frame in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSignalBlocker, QSize, Qt, Slot
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractSlider, QPushButton, QSizePolicy, QToolTip, QWidget

from app.canvas.legend import Legend, LegendEntry
from app.design import themes
from app.design.action import key_text
from app.design.controls import Elided, chain_tabs, choice_of, describe, folded, introduce
from app.design.focus_rings import is_ringed
from app.design.fonts import TEXT_SMALL, caption_font, px
from app.design.icons import set_icon, transport_button
from app.design.layouts import Gap, column_of, row_of
from app.design.tokens import Theme, color, set_inks
from app.inspector.keys import KEY_ACTIONS
from app.inspector.timeline.overview import Overview
from app.inspector.words import frame_words
from app.player.player import NOTHING, SPEEDS, Player
from app.state.run.replay import NOISE, Frame
from app.system.i18n import tr

MARGIN = 12  # pixels at both ends, for the handle
MIDDLE, TRACK = 18, 6  # of the line, from the top; and its height
LEAST_LABEL = 48  # least pixels between two blocks' numbers


class Timeline(QAbstractSlider):
    """A slider over the frames: click or drag to go, hover for a frame's facts. The page handles its keys."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__(orientation=Qt.Orientation.Horizontal, singleStep=1)
        self._player, self._overview = player, overview
        self._pointed = -1
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        introduce(self, tr("Timeline"), tr("Every step of the run. The arrow keys go to the one before or after."))
        player.opened.connect(self._on_frames)
        player.grown.connect(self._on_frames)
        player.placed.connect(self._on_placed)
        overview.known.connect(lambda _block: self.update())
        self.valueChanged.connect(player.go)
        themes.changed.connect(self.updateGeometry)

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
        with QSignalBlocker(self):
            self.setRange(0, max(0, len(self._frames) - 1))
            self.setValue(self._player.place)
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
        self.update(QRect(round(lower), MIDDLE - TRACK, round(upper - lower) + 1, 2 * TRACK))

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

    def leaveEvent(self, _event: QEvent) -> None:
        self._point(-1, QPoint())

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
            QToolTip.showText(where, folded(self.words_at(place)), self)

    def words_at(self, place: int) -> str:
        """Returns the tool tip of a frame."""
        frame, steps = self._frames[place], self._overview.steps[self._frames[place].block]
        if self._reads:
            return frame_words(frame, steps, None, self._reads)
        if frame.step == NOISE:
            return tr("Block {block}, before the first step", block=frame.block + 1)
        if frame.step >= steps:
            return tr("Block {block}, finished", block=frame.block + 1)
        return frame_words(frame, steps, None)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            theme = themes.current()
            left, right = self.x_of(0), self.x_of(self.maximum())
            painter.fillRect(QRectF(left, MIDDLE - 1, right - left, 2), color(theme.line_strong))
            if self._frames:
                here = self.x_of(self.value())
                painter.fillRect(QRectF(left, MIDDLE - 1, here - left, 2), color(theme.accent))
                self._paint_blocks(painter, event.rect())
                if self._pointed >= 0:
                    painter.fillRect(QRectF(self.x_of(self._pointed) - 0.5, 4, 1, 28), color(theme.faint_ink))
                set_inks(painter, QPen(color(theme.surface), 2), color(theme.ink))
                painter.drawEllipse(QPointF(here, MIDDLE), 8, 8)
            if is_ringed(self):
                set_inks(painter, QPen(color(theme.focus), 2), Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)

    def _paint_blocks(self, painter: QPainter, clip: QRect) -> None:
        replay = self._player.replay
        assert replay is not None
        theme = themes.current()
        painter.setFont(caption_font())
        last_label = -1e9
        for block, steps in enumerate(self._overview.steps):
            first = replay.first_of(block)
            start, end = self.x_of(first), self.x_of(first + steps + (1 if replay.committed(block) else 0))
            if start - last_label >= LEAST_LABEL:
                last_label = start
                first_text = tr("read {number}", number=1) if self._reads else tr("block {number}", number=1)
                painter.setPen(color(theme.faint_ink))
                painter.drawText(QPointF(start, self.height() - 5), str(block + 1) if block else first_text)
            if end < clip.left() - 12 or start > clip.right() + 12:
                continue
            painter.fillRect(QRectF(start - 0.5, MIDDLE - 5, 1, 10), color(theme.line_strong))
            if replay.committed(block):
                painter.fillRect(QRectF(end - 1, MIDDLE - 8, 2, 16), color(theme.faint_ink))
            figures = self._overview[block]
            if figures is None:
                continue
            shade = color(theme.taken_back)
            most = max(1, int(figures.taken_back.max(initial=1)))
            for step in figures.bursts.tolist():
                high = 3 + 7 * figures.taken_back[step] / most
                painter.fillRect(QRectF(self.x_of(first + 1 + step) - 1.5, MIDDLE - 4 - high, 3, high), shade)
            if figures.stopped_early and replay.committed(block):
                paint_diamond(painter, QPointF(end, MIDDLE - 13), theme)

    def sliderChange(self, _change: QAbstractSlider.SliderChange) -> None:
        """Does nothing: Qt would repaint all, while ``_on_placed`` repaints only the changed part."""


def paint_diamond(painter: QPainter, middle: QPointF, theme: Theme) -> None:
    set_inks(painter, Qt.PenStyle.NoPen, color(theme.accepted))
    points = ((0, -5), (5, 0), (0, 5), (-5, 0))
    painter.drawPolygon(QPolygonF([middle + QPointF(*point) for point in points]))


def _draw_end(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.fillRect(QRectF(rect.center().x() - 1, rect.top() + 1, 2, rect.height() - 2), color(theme.faint_ink))


def _draw_burst(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.fillRect(QRectF(rect.center().x() - 1.5, rect.center().y() - 5, 3, 10), color(theme.taken_back))


class Transport(QWidget):
    """The controls. Each key has a button, and each button a name."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self.setObjectName("transport")
        self._player, self._overview = player, overview
        self.buttons: dict[str, QPushButton] = {}
        self.timeline = Timeline(player, overview)
        self.key = Legend()
        self.key.set_entries(
            (
                LegendEntry(tr("end of a block"), _draw_end),
                LegendEntry(
                    tr("stopped early"), lambda painter, rect, theme: paint_diamond(painter, rect.center(), theme)
                ),
                LegendEntry(tr("many taken back at once"), _draw_burst),
            )
        )
        self.frame = Elided("frame")
        speeds = [(speed, tr("{speed}×", speed=f"{speed:g}")) for speed in SPEEDS]
        tip = tr("How fast the steps follow each other; at 1× a block takes two to four seconds")
        self.speed = introduce(choice_of(speeds), tr("Speed"), tip=tip)
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self._lay_out()
        self.speed.activated.connect(lambda index: player.set_speed(SPEEDS[index]))
        player.opened.connect(self._fit_key)
        for signal in (player.grown, player.placed, player.selected):
            signal.connect(self._show)
        player.playing_changed.connect(self._show_playing)
        self._show_playing(False)
        player.speed_changed.connect(self._show_speed)
        self._show()

    def _lay_out(self) -> None:
        for action in (one for one in KEY_ACTIONS if one.icon):
            title, run = tr(action.title), partial(self.run, action.id)
            control = self.buttons[action.id] = transport_button(action.icon, title, _tip(title, action.key), run)
            # A click does not move the keyboard focus, so that the page still gets the arrow keys.
            control.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        row = row_of(*self.buttons.values(), Gap(0), self.speed, Gap(8), (self.frame, 1), (self.key, 1), spacing=4)
        self.setLayout(column_of(self.timeline, row, margins=(16, 4, 16, 8), spacing=0))
        chain_tabs(self.timeline, [*self.buttons.values(), self.speed])

    def run(self, action: str) -> None:
        player = self._player
        actions: dict[str, Callable[[], object]] = {
            "first": lambda: player.step(-player.place),
            "change-back": lambda: player.next_change(-1),
            "back": lambda: player.step(-1),
            "play": player.toggle,
            "on": lambda: player.step(1),
            "change-on": lambda: player.next_change(1),
            "last": lambda: player.step(self.timeline.maximum()),
        }
        actions[action]()

    @Slot()
    def _show(self) -> None:
        player = self._player
        frame = player.frame
        self.setEnabled(frame is not None)
        if frame is None:
            self.frame.set_whole("")
            return
        reads = 0 if player.replay is None else player.replay.read_count
        self.frame.set_whole(frame_words(frame, self._overview.steps[frame.block], player.snapshot, reads))
        for action in ("change-back", "change-on"):
            self.buttons[action].setEnabled(player.selection != NOTHING)

    @Slot()
    def _fit_key(self) -> None:
        """Shows the key of the timeline's marks where there is room. Decisions have no such marks."""
        header = None if self._player.trace is None else self._player.trace.header
        has_marks = header is None or header.decision is None
        self.key.setVisible(has_marks and self.width() >= px(1200))

    @Slot(bool)
    def _show_playing(self, playing: bool) -> None:
        title = tr("Pause") if playing else tr("Play")
        self.buttons["play"].setAccessibleName(title)
        describe(self.buttons["play"], _tip(title, "Space"))
        set_icon(self.buttons["play"], "pause" if playing else "play")

    @Slot(float)
    def _show_speed(self, speed: float) -> None:
        self.speed.setCurrentIndex(min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - speed)))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit_key()


def _tip(title: str, key: str) -> str:
    return tr("{title} ({key})", title=title, key=key_text(key))
