"""The chart of a position's candidates over the steps. Follows the selected or hovered cell."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPixmap

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import color
from app.inspector.cell.rank_paths import TAIL, Plot, paint_history, paint_row_names
from app.inspector.timeline.steps_area import StepsArea
from app.inspector.words import moment_in_words, written
from app.player.player import NOTHING, Player
from app.state.run.cell_history import History, history_of
from app.system.i18n import tr

ROW, ENTROPY, LABELS, NUMBERS, GAP = 24, 40, 20, 20, 12  # pixels, at 100 %
LEAST_ROW, LEAST_ENTROPY = 15, 28  # used if there is little room
LEAST_COLUMN, MAX_COLUMN = 12, 56
LIGHT = 0.6  # opacity of the history of a hovered cell that is not selected


class BumpChart(StepsArea):
    """Candidates by rank over the steps, with the entropy underneath."""

    shown = Signal()  # emitted when another history is shown, or more of it

    def __init__(self, player: Player) -> None:
        super().__init__(player, LEAST_COLUMN, MAX_COLUMN)
        self.bio: History | None = None
        self._light = True
        self._room = 0  # height in pixels to fit into if possible; 0 for no limit
        self._picture: QPixmap | None = None
        self._picture_of: tuple[object, ...] = ()
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Candidates by step"))
        player.selected.connect(self._look)
        player.hovered.connect(self._look)
        self._reload()

    @property
    def position(self) -> int:
        """The cell whose history is shown: the selected one, else the hovered one; -1 for none."""
        return self.player.selection if self.player.selection != NOTHING else self.player.hover

    @property
    def is_light(self) -> bool:
        """True if no cell is selected: the history is that of the hovered cell."""
        return self.player.selection == NOTHING

    def gutter(self) -> int:
        return px(32) if self.bio is None or self.bio.depth else px(72)

    def tail(self) -> int:
        return px(TAIL)

    def has_columns(self) -> bool:
        return self.bio is not None

    def plot(self) -> Plot | None:
        """Returns the present layout of the chart; None without a history."""
        if self.bio is None:
            return None
        return Plot(
            left=self.x_of(0),
            column=self.column,
            steps=self.bio.steps,
            top=px(LABELS),
            row=self._row(),
            depth=self.bio.depth,
            outside=self.bio.samples_outside,
            gap=px(GAP),
            entropy=px(LEAST_ENTROPY if self._is_tight else ENTROPY),
            gutter=self.gutter(),
        )

    def set_room(self, height: int) -> None:
        """Sets the height in pixels to fit into. Rows shrink for it, but not below ``LEAST_ROW``."""
        if height != self._room:
            self._room = height
            self._picture = None
            self.setFixedHeight(self.sizeHint().height())
            self.viewport().update()

    @property
    def _is_tight(self) -> bool:
        return 0 < self._room < px(LABELS + 8 * ROW + GAP + ENTROPY + NUMBERS)

    def _row(self) -> int:
        if not self._is_tight:
            return px(ROW)
        rows = 8 if self.bio is None else self.bio.depth + self.bio.samples_outside
        return max(px(LEAST_ROW), min(px(ROW), (self._room - px(LABELS + GAP + LEAST_ENTROPY + NUMBERS)) // rows))

    def load(self) -> None:
        record, position = self.record, self.position
        known = record is not None and 0 <= position < record.length
        self.bio = history_of(record, position) if record is not None and known else None
        self._light = self.is_light
        self._picture = None
        self.setFixedHeight(self.sizeHint().height())

    def describe(self) -> None:
        self.shown.emit()

    @Slot(int)
    def _look(self, _position: int) -> None:
        record, position = self.record, self.position
        now = position if record is not None and position < record.length else NOTHING
        if (now, self.is_light) == (NOTHING if self.bio is None else self.bio.position, self._light):
            return
        self._reload()

    def sizeHint(self) -> QSize:
        plot = self.plot()
        tall = self._empty_height() if plot is None else plot.bottom
        return QSize(px(420), round(tall + px(NUMBERS)) + self.horizontalScrollBar().sizeHint().height())

    def _empty_height(self) -> int:
        whole = px(LABELS + 8 * ROW + GAP + ENTROPY)
        return max(px(96), min(whole, self._room - px(NUMBERS + GAP))) if self._room > 0 else whole

    def minimumSizeHint(self) -> QSize:
        return QSize(px(200), self.sizeHint().height())

    def paint(self, painter: QPainter, clip: QRect) -> None:
        view, ratio = self.viewport().size(), self.devicePixelRatioF()
        of = (self.bio, view, ratio, themes.current().name, self.x_of(0), self.column)
        if self._picture is None or self._picture_of != of:
            self._picture, self._picture_of = self._draw(view, ratio), of
        target = QRectF(clip)
        painter.drawPixmap(target, self._picture, QRectF(target.topLeft() * ratio, target.size() * ratio))
        rect, plot = self.cursor_rect(), self.plot()
        if rect is not None and plot is not None and rect.left() >= self.gutter() - 3:
            self.paint_cursor(painter, rect, color(themes.current().accent))
        self.paint_ring(painter)

    def _draw(self, view: QSize, ratio: float) -> QPixmap:
        """Draws all that does not change while the cursor moves."""
        picture = QPixmap(view * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(color(themes.current().surface_sunken))
        plot, bio = self.plot(), self.bio
        with QPainter(picture) as painter:
            if plot is None or bio is None:
                painter.setFont(caption_font())
                painter.setPen(color(themes.current().faint_ink))
                area = QRect(0, 0, view.width(), view.height()).adjusted(px(16), 0, -px(16), 0)
                painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self.empty_text())
            else:
                painter.setOpacity(LIGHT if self._light else 1.0)
                painter.setClipRect(QRectF(plot.gutter, 0, view.width(), view.height()))
                paint_history(painter, plot, bio, themes.current(), self.text_of, caption_font())
                painter.setClipping(False)
                paint_row_names(painter, plot, bio, themes.current(), caption_font())
                self.paint_step_numbers(painter, round(plot.bottom) + px(2), px(NUMBERS - 2), QRect(0, 0, 1 << 20, 1))
        return picture

    def empty_text(self) -> str:
        if self.record is None:
            return tr("Open a run or ask for something; the history of each cell is shown here.")
        return tr("Select a cell to see its likeliest tokens by step, the one that was sampled, and what became of it.")

    def text_of(self, token: int) -> str:
        return written(self.player.piece(token), self.player.is_special(token))

    def tip_at(self, point: QPoint) -> str:
        step = self.step_at(point.x())
        return "" if self.bio is None or step < 0 else moment_in_words(self.bio, step, self.player.piece)
