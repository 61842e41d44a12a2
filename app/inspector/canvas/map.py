"""A map of all positions of a block against all its steps: entropy, acceptance, and what was taken back."""

from __future__ import annotations

from functools import cache

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.canvas.legend import Legend, LegendEntry
from app.design import themes
from app.design.fonts import caption_font, px
from app.design.layouts import column_of
from app.design.tokens import SPACE_2, SPACE_4, Theme, color, entropy_color, readable_on, set_inks, veil
from app.inspector.timeline.steps_area import StepsArea
from app.inspector.words import capital, history_in_words, moment_in_words
from app.player.player import NOTHING, Player
from app.state.run.cell_history import history_of
from app.state.run.replay import BlockRecord
from app.system.i18n import tr, trn
from engine import step_number

LEAST_ROW, MAX_ROW = 4, 14  # pixels at 100 %; rows are as high as all of them fit
NUMBERS, GUTTER, FOLD = 20, 40, 20  # pixels at 100 %
LEAST_COLUMN, MAX_COLUMN = 6, 32
LABEL_STEPS = (1, 2, 4, 8, 16)  # positions between two labelled rows: the least that fits
SHADES = 256
QUIET = 0.62  # opacity of acceptance marks: most cells have one in the end, and the colours must stay visible


def entropy_top(record: BlockRecord) -> float:
    """Returns the top of the colour scale in nats: the highest entropy of a counted position, at least 0.1."""
    return max(float(record.entropy[:, record.counted].max(initial=0.0)), 0.1)


def heat(record: BlockRecord, theme: Theme) -> QImage:
    """Returns an image with one pixel for each cell, S wide and C high, without padding."""
    shades, _ = _shades(theme)
    entropy = record.entropy[:, record.counted].T  # (C, S)
    places = np.clip(entropy / entropy_top(record) * (SHADES - 1), 0, SHADES - 1).astype(np.uint8)
    pixels = np.ascontiguousarray(shades[places])
    high, wide = pixels.shape
    return QImage(pixels.data, wide, high, wide * 4, QImage.Format.Format_RGB32).copy()  # outlives the array


@cache
def _shades(theme: Theme) -> tuple[np.ndarray, np.ndarray]:
    """Returns the colour scale as pixels, and for each pixel True if black is readable on it."""
    colors = [entropy_color(place / (SHADES - 1), theme) for place in range(SHADES)]
    pixels = np.array([shade.rgb() for shade in colors], dtype=np.uint32)
    return pixels, np.array([readable_on(shade).lightness() == 0 for shade in colors])


class MapArea(StepsArea):
    """The map: positions downwards, steps to the right. Padding behind the text is folded into a line of words."""

    def __init__(self, player: Player) -> None:
        super().__init__(player, LEAST_COLUMN, MAX_COLUMN)
        self._image: QImage | None = None
        self._dark = np.zeros((0, 0), dtype=np.bool_)  # (S, C) True where a mark on the cell is black
        self._marks = np.zeros((0, 0), dtype=np.uint8)  # (S, C) 1 accepted, 2 taken back
        self._rows: set[int] = set()  # highlighted
        self.setAccessibleName(tr("Map of cells and steps"))
        player.selected.connect(self._choose)
        player.hovered.connect(self._light)
        self._reload()

    def gutter(self) -> int:
        return px(GUTTER)

    def top(self) -> int:
        return px(NUMBERS)

    @property
    def rows(self) -> int:
        """The number of positions with a row: all but padding."""
        return 0 if self.record is None else len(range(self.record.length)[self.record.counted])

    @property
    def fold(self) -> int:
        """The height of the line below the rows that says how much padding is folded, in pixels; 0 without padding."""
        return px(FOLD) if self.record is not None and self.rows < self.record.length else 0

    @property
    def row(self) -> int:
        """The height of a row in pixels."""
        room = self.viewport().height() - self.top() - self.fold
        return max(px(LEAST_ROW), min(room // max(self.rows, 1), px(MAX_ROW)))

    def content_height(self) -> int:
        return self.rows * self.row + self.fold

    def y_of(self, position: int) -> int:
        """Returns the top of a position's row in the viewport, in pixels."""
        return self.top() + position * self.row - self.verticalScrollBar().value()

    def position_at(self, y: float) -> int:
        """Returns the position at ``y`` in the viewport, or -1."""
        if self.record is None or y < self.top():
            return NOTHING
        position = int((y - self.y_of(0)) // self.row)
        return position if 0 <= position < self.rows else NOTHING

    def load(self) -> None:
        record = self.record
        self._image = None
        self._rows = self._lit()
        if record is None or not record.steps:
            return
        self._image = heat(record, themes.current())
        self._marks = record.accepted.astype(np.uint8) + 2 * record.taken_back
        places = np.clip(record.entropy / entropy_top(record) * (SHADES - 1), 0, SHADES - 1).astype(np.uint8)
        self._dark = _shades(themes.current())[1][places]

    def _lit(self) -> set[int]:
        return {position for position in (self.player.selection, self.player.hover) if 0 <= position < self.rows}

    def describe(self) -> None:
        words = self.words()
        if words != self.accessibleDescription():
            self.setAccessibleDescription(words)

    def words(self) -> str:
        """Describes the current step and the selected position's history."""
        record, frame = self.record, self.player.frame
        if record is None or frame is None:
            return tr("Open a run or ask for something; every cell and step of a block is shown here.")
        said = [
            tr(
                "Block {block}: {positions} by {steps}.",
                block=record.index + 1,
                positions=trn("{count} position", "{count} positions", record.length),
                steps=trn("{count} step", "{count} steps", record.steps),
            )
        ]
        if 0 <= frame.step < record.steps:
            said.append(
                tr(
                    "Step {step}: {accepted} accepted, {back} taken back, entropy {entropy} nats a cell.",
                    step=step_number(frame.step),
                    accepted=int(record.accepted_counts[frame.step]),
                    back=int(record.taken_back_counts[frame.step]),
                    entropy=f"{record.mean_entropy[frame.step]:.3f}",
                )
            )
        position = self.player.selection
        if 0 <= position < record.length:
            history = history_in_words(history_of(record, position), self.player.piece)
            said.append(tr("{cell}: {history}", cell=capital(self.player.name_of(position)), history=history))
        return " ".join(said)

    @Slot(int)
    def _choose(self, position: int) -> None:
        self._light(position)
        self.describe()
        if 0 <= position < self.rows:
            bar, y = self.verticalScrollBar(), self.y_of(position)
            if y < self.top():
                bar.setValue(bar.value() + y - self.top())
            elif y + self.row > self.viewport().height():
                bar.setValue(bar.value() + y + self.row - self.viewport().height())

    @Slot(int)
    def _light(self, _position: int) -> None:
        now = self._lit()
        for position in now | self._rows:
            self.viewport().update(QRect(0, self.y_of(position) - 3, self.viewport().width(), self.row + 6))
        self._rows = now

    def paint(self, painter: QPainter, clip: QRect) -> None:
        theme = themes.current()
        painter.fillRect(clip, color(theme.surface_sunken))
        if self._image is None or self.record is None:
            painter.setFont(caption_font())
            painter.setPen(color(theme.faint_ink))
            area = self.viewport().rect().adjusted(px(16), 0, -px(16), 0)
            said = self.words() if self.record is None else tr("No step was taken yet.")
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, said)
            self.paint_ring(painter)
            return
        first, last = self._visible(clip)
        self._paint_cells(painter, clip, first, last)
        self._paint_rows(painter, clip)
        self._paint_fold(painter, self.record.length - self.rows)
        painter.fillRect(QRect(0, 0, self.gutter(), self.viewport().height()) & clip, color(theme.surface_sunken))
        self._paint_numbers(painter, first, last)
        painter.fillRect(QRect(0, 0, self.viewport().width(), self.top()) & clip, color(theme.surface_sunken))
        self.paint_step_numbers(painter, px(3), self.top() - px(3), clip)
        rect = self.cursor_rect()
        if rect is not None and rect.left() >= self.gutter() - 3:
            self.paint_cursor(painter, rect, color(theme.ink))  # not the accent, which is a colour of the scale
        self.paint_ring(painter)

    def _visible(self, clip: QRect) -> tuple[int, int]:
        top = max(clip.top(), self.top())
        first = max(0, (top - self.y_of(0)) // self.row)
        return first, min(self.rows, (clip.bottom() - self.y_of(0)) // self.row + 1)

    def _paint_cells(self, painter: QPainter, clip: QRect, first: int, last: int) -> None:
        assert self._image is not None
        left = max(clip.left(), self.gutter())
        begin = max(0, (left - self.x_of(0)) // self.column)
        end = min(self.steps, (clip.right() - self.x_of(0)) // self.column + 1)
        if begin >= end or first >= last:
            return
        x, y, wide, high = self.x_of(begin), self.y_of(first), self.column, self.row
        target = QRect(x, y, (end - begin) * wide, (last - first) * high)
        painter.drawImage(target, self._image, QRect(begin, first, end - begin, last - first))
        mark = 2 if high >= 8 else 1
        set_inks(painter, Qt.PenStyle.NoPen, color(themes.current().surface_sunken))
        painter.drawRects([QRect(x, y + row * high + high - 1, target.width(), 1) for row in range(last - first)])
        painter.drawRects([QRect(x + step * wide + wide - 1, y, 1, target.height()) for step in range(end - begin)])
        marks, dark = self._marks[begin:end, first:last], self._dark[begin:end, first:last]
        for black, ink in ((True, "#000000"), (False, "#ffffff")):
            steps, rows = np.nonzero((marks == 1) & (dark == black))
            painter.setBrush(veil(ink, QUIET))
            painter.drawRects(
                [
                    QRect(x + step * wide + 1, y + row * high + high - 2 - mark, wide - 3, mark)
                    for step, row in zip(steps.tolist(), rows.tolist(), strict=True)
                ]
            )
        steps, rows = np.nonzero(marks == 2)
        self._paint_dots(painter, x, y, steps, rows, dark)

    def _paint_dots(
        self, painter: QPainter, x: int, y: int, steps: np.ndarray, rows: np.ndarray, dark: np.ndarray
    ) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        radius = min(self.column, self.row) * 0.28
        for step, row in zip(steps.tolist(), rows.tolist(), strict=True):
            painter.setBrush(color("#000000" if dark[step, row] else "#ffffff"))
            middle = QPointF(x + (step + 0.5) * self.column - 0.5, y + (row + 0.5) * self.row - 0.5)
            painter.drawEllipse(middle, radius, radius)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_fold(self, painter: QPainter, padding: int) -> None:
        """Paints the line that stands for the padding."""
        if self.fold:
            place = QRect(self.x_of(0), self.y_of(self.rows), self.viewport().width(), self.fold)
            words = trn("{count} position of padding", "{count} positions of padding", padding)
            painter.setFont(caption_font())
            painter.setPen(color(themes.current().faint_ink))
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)

    def _paint_rows(self, painter: QPainter, clip: QRect) -> None:
        """Paints two lines around the hovered row and a frame around the selected one."""
        wide = self.steps * self.column
        for position in sorted(self._rows):
            y = self.y_of(position)
            if y + self.row + 3 < clip.top() or y - 3 > clip.bottom():
                continue
            if position == self.player.selection:
                set_inks(painter, QPen(color(themes.current().focus), 2), Qt.BrushStyle.NoBrush)
                painter.drawRect(QRect(self.x_of(0) - 1, y - 1, wide + 1, self.row + 1))
            else:
                line = color(themes.current().ink)
                painter.fillRect(self.x_of(0), y - 1, wide, 1, line)
                painter.fillRect(self.x_of(0), y + self.row - 1, wide, 1, line)

    def _paint_numbers(self, painter: QPainter, first: int, last: int) -> None:
        """Paints the numbers of positions, as many as fit, and of the highlighted ones."""
        painter.setFont(caption_font())
        line = painter.fontMetrics().height()
        every = next(step for step in LABEL_STEPS if step * self.row >= line or step == LABEL_STEPS[-1])
        lit = {position for position in self._rows if first - 2 <= position <= last + 2}
        named = set(range(first - first % every, last, every))
        quiet = {position for position in named if all(abs(position - other) * self.row >= line for other in lit)}
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        for position in sorted(quiet | lit):
            painter.setPen(color(themes.current().ink if position in lit else themes.current().faint_ink))
            y = self.y_of(position) + (self.row - line) // 2 if position else self.y_of(0)  # not under the step numbers
            painter.drawText(QRect(0, y, self.gutter() - px(6), line), right, str(position))

    def sizeHint(self) -> QSize:
        return QSize(px(420), px(320))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(200), px(72))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        inside = self.step_at(event.position().x()) >= 0 or event.position().x() < self.gutter()
        self.player.point(self.position_at(event.position().y()) if inside else NOTHING)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        position = self.position_at(event.position().y())
        if event.button() == Qt.MouseButton.LeftButton and position != NOTHING:
            self.player.select(position)
        super().mousePressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.player.point(NOTHING)
        return super().viewportEvent(event)

    def tip_at(self, point: QPoint) -> str:
        """Describes a cell; empty outside the map."""
        position, step = self.position_at(point.y()), self.step_at(point.x())
        if self.record is None or position == NOTHING or step < 0:
            return ""
        words = moment_in_words(history_of(self.record, position), step, self.player.piece)
        return tr("{cell}. {told}", cell=capital(self.player.name_of(position)), told=words)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if by is None or not plain or self.record is None:
            super().keyPressEvent(event)
            return
        now = self.player.selection
        self.player.select(0 if now == NOTHING else max(0, min(now + by, self.rows - 1)))


class StepMap(QWidget):
    """The map with its legend."""

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("Map of cells and steps"))
        self.area = MapArea(player)
        self.legend = Legend()
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        # The legend is above the map, so that it stays visible while the map scrolls.
        self.setLayout(column_of(self.legend, (self.area, 1), margins=margins, spacing=SPACE_2))
        player.placed.connect(self._update)
        player.grown.connect(self._update)
        self._update()

    @Slot()
    def _update(self) -> None:
        record = self.area.record
        self.setAccessibleDescription(self.area.words())
        self.legend.setVisible(record is not None)
        if record is None:
            return
        entries = [
            LegendEntry(
                tr("entropy, 0 to {most} nats", most=f"{entropy_top(record):.2f}"),
                None,
                tip=tr("How unsure the model is of a cell at a step"),
            ),
            LegendEntry(tr("accepted"), _draw_accepted, tip=tr("The token was sure enough to stay")),
            LegendEntry(tr("taken back"), _draw_taken_back, tip=tr("Accepted at the step before, and no longer")),
        ]
        self.legend.set_entries(entries)


def _draw_accepted(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    shade = entropy_color(0.1, theme)
    cell = rect.adjusted(1, 2, -1, -2)
    painter.fillRect(cell, shade)
    painter.fillRect(QRectF(cell.left() + 1, cell.bottom() - 4, cell.width() - 2, 2), readable_on(shade))


def _draw_taken_back(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    shade = entropy_color(0.5, theme)
    painter.fillRect(rect.adjusted(1, 2, -1, -2), shade)
    set_inks(painter, Qt.PenStyle.NoPen, readable_on(shade))
    painter.drawEllipse(rect.center(), px(3), px(3))
