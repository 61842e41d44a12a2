"""All blocks of a run in a row, each as a small picture of its last frame. Pictures are painted when visible."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Slot
from PySide6.QtGui import (
    QFont,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QToolTip, QWidget

from app.canvas.words import STATE_WORDS
from app.design import themes
from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.tokens import Theme, color, entropy_color
from app.inspector.timeline.overview import BlockFigures, Overview, state_counts
from app.player.player import Player
from app.state.run.canvas import CellState
from app.system.i18n import tr, trn

PICTURE = (96, 24)  # pixels at 100 %
GAP = 12
MARGIN = 16
SCROLL_BAR = 12


class Filmstrip(QScrollArea):
    """The scrolling strip of blocks. Hidden if there is only one block, and for decisions."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player, self._overview = player, overview
        self.strip = Strip(player, overview)
        self.setWidget(self.strip)
        self.setWidgetResizable(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.hide()
        player.opened.connect(self._on_frames)
        player.grown.connect(self._on_frames)
        player.placed.connect(self._on_placed)
        overview.known.connect(self.strip.renew)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()

    @Slot()
    def _on_frames(self) -> None:
        blocks = 0 if self._player.replay is None else self._player.replay.blocks
        self.strip.set_count(blocks)
        self._fit_height()
        is_decision = self._player.replay is not None and self._player.replay.is_decision  # its reads look alike
        self.setVisible(blocks > 1 and not is_decision)
        self._on_placed()

    def _fit_height(self) -> None:
        scrolls = self.strip.width() > self.width()
        self.setFixedHeight(self.strip.height() + (SCROLL_BAR if scrolls else 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_height()

    @Slot()
    def _on_placed(self) -> None:
        frame = self._player.frame
        self.strip.set_current(-1 if frame is None else frame.block)
        if frame is not None and self.isVisible():
            rect = self.strip.rect_of(frame.block)
            self.ensureVisible(rect.center().x(), rect.center().y(), rect.width() // 2 + GAP, 0)


class Strip(QWidget):
    """The strip: one picture for each block. Up, Down and clicks go to a block."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player, self._overview = player, overview
        self._count = 0
        self._current = -1
        self._pictures: dict[int, QImage] = {}
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Blocks"))
        self.set_count(0)
        themes.changed.connect(self._forget)

    @Slot()
    def _forget(self) -> None:
        self._pictures.clear()
        self.set_count(self._count)

    def set_count(self, count: int) -> None:
        """Sets the number of blocks."""
        if count < self._count:
            self._pictures.clear()
        self._count = count
        self.resize(2 * MARGIN + max(0, count * (self._item.width() + GAP) - GAP), self._item.height() + 12)
        self.update()

    def set_current(self, block: int) -> None:
        """Marks the current block."""
        if block == self._current:
            return
        for changed in (block, self._current):
            if changed >= 0:
                self.update(self.rect_of(changed).adjusted(-6, -6, 6, 6))
        self._current = block
        text = self._words(block) if block >= 0 else ""
        self.setAccessibleDescription(text)

    @Slot(int)
    def renew(self, block: int) -> None:
        """Repaints a block whose figures are new or have changed."""
        self._pictures.pop(block, None)
        self.update(self.rect_of(block))
        if block == self._current:
            self.setAccessibleDescription(self._words(block))

    @property
    def _font(self) -> QFont:
        font = ui_font()
        font.setPixelSize(px(TEXT_SMALL))
        return font

    @property
    def _item(self) -> QSize:
        return QSize(px(PICTURE[0]), px(PICTURE[1]) + px(TEXT_SMALL) + 8)

    def rect_of(self, block: int) -> QRect:
        """Returns the rectangle of a block's picture and caption."""
        item = self._item
        return QRect(MARGIN + block * (item.width() + GAP), 6, item.width(), item.height())

    def block_at(self, point: QPoint) -> int:
        """Returns the block under a point, or -1."""
        block = (point.x() - MARGIN) // (self._item.width() + GAP)
        return block if 0 <= block < self._count and self.rect_of(block).contains(point) else -1

    def mousePressEvent(self, event: QMouseEvent) -> None:
        block = self.block_at(event.position().toPoint())
        if block >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self._player.pause()
            self._player.go_to_block(block)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()  # like its press

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, plain = event.key(), not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if plain and key in steps and self._count:
            self._player.pause()
            self._player.go_to_block(max(0, min(self._current + steps[Qt.Key(key)], self._count - 1)))
        else:
            event.ignore()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            block = self.block_at(event.pos())
            if block < 0:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), self._words(block), self)
            return True
        return super().event(event)

    def _words(self, block: int) -> str:
        if block >= len(self._overview.steps):
            return ""
        steps = trn("{count} step", "{count} steps", self._overview.steps[block])
        text = tr("Block {block} of {blocks}, {steps}", block=block + 1, blocks=self._count, steps=steps)
        figures = self._overview[block]
        if figures is None:
            return text
        counts = state_counts(figures)
        parts = [
            tr("{count} {state}", count=counts[state], state=tr(STATE_WORDS[state]))
            for state in CellState
            if state in counts
        ]
        return ", ".join([text, *parts])

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._font)
        theme = themes.current()
        item = self._item.width() + GAP
        first = max(0, (event.rect().left() - MARGIN) // item)
        last = min(self._count - 1, (event.rect().right() - MARGIN + GAP) // item)
        for block in range(first, last + 1):
            rect = self.rect_of(block)
            picture = QRect(rect.x(), rect.y(), rect.width(), px(PICTURE[1]))
            painter.fillRect(picture, color(theme.surface_sunken))
            image = self._picture(block)
            if image is not None:
                painter.drawImage(picture, image)
            here = block == self._current
            edge = theme.accent if here else theme.line_strong
            painter.setPen(QPen(color(edge), 2 if here else 1))
            painter.drawRect(QRectF(picture).adjusted(-1.5, -1.5, 1.5, 1.5))
            painter.setPen(color(theme.ink if here else theme.faint_ink))
            caption = QRect(rect.x(), picture.bottom() + 5, rect.width(), px(TEXT_SMALL) + 6)
            steps = self._overview.steps[block] if block < len(self._overview.steps) else 0
            text = trn("{number} · {count} step", "{number} · {count} steps", steps, number=block + 1)
            painter.drawText(caption, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        if self.hasFocus() and self._current >= 0:
            painter.setPen(QPen(color(theme.focus), 2))
            painter.drawRoundedRect(self.rect_of(self._current).adjusted(-5, -5, 5, 4), 4, 4)
        painter.end()

    def _picture(self, block: int) -> QImage | None:
        if block not in self._pictures:
            figures = self._overview[block]
            if figures is None:
                return None
            self._pictures[block] = _drawn(figures, themes.current())
        return self._pictures[block]


def _drawn(figures: BlockFigures, theme: Theme) -> QImage:
    """Returns an image with one pixel for each cell. Its colour shows the step of settling; padding stays empty."""
    length = len(figures.states)
    rows = max(1, math.isqrt(max(1, length) // 4))
    columns = -(-max(1, length) // rows)
    image = QImage(columns, rows, QImage.Format.Format_RGB32)
    image.fill(color(theme.surface_sunken))
    shades = [entropy_color(0.2 + 0.8 * step / max(1, figures.steps - 1), theme).rgb() for step in range(figures.steps)]
    unknown = color(theme.noise).rgb()
    for place, (state, settled) in enumerate(zip(figures.states.tolist(), figures.settled_at.tolist(), strict=True)):
        if state != CellState.PADDING:
            image.setPixel(place % columns, place // columns, shades[settled] if settled < len(shades) else unknown)
    return image
