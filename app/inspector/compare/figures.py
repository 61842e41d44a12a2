"""The figures of two runs side by side: a table of the whole runs, and the entropy of the current block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QPen, QPolygonF, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from app.design import themes
from app.design.controls import label
from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.layouts import row_of
from app.design.tokens import SPACE_2, SPACE_4, color
from app.inspector.timeline.overview import BlockFigures, Overview
from app.inspector.timeline.plots import round_up
from app.inspector.words import in_nats, tick
from app.state.run.replay import Floats
from app.system.i18n import tr
from engine import step_number

LEFT, RIGHT = 0, 1
UNKNOWN = "…"  # shown while blocks are still being read


def figures_of_run(overview: Overview) -> tuple[str, ...]:
    """Returns the figures as texts, in the order of ``names``; ``UNKNOWN`` for those that are not known yet."""
    blocks, steps = len(overview.steps), sum(overview.steps)
    known = [figures for block in range(blocks) if (figures := overview[block]) is not None]
    if not overview.complete or not known:
        return (str(blocks), str(steps), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    text = sum(figures.counted for figures in known if figures.committed)
    ends = [float(figures.mean_entropy[-1]) for figures in known if figures.steps]
    return (
        str(blocks),
        str(steps),
        f"{text / steps:.1f}" if steps else UNKNOWN,
        str(sum(int(figures.remelts.sum()) for figures in known)),
        str(sum(figures.stopped_early for figures in known)),
        in_nats(float(np.mean(ends))) if ends else UNKNOWN,
    )


def names() -> tuple[str, ...]:
    """Returns the names of the figures, with their units."""
    return (
        tr("Blocks"),
        tr("Steps"),
        tr("Tokens per pass"),
        tr("Taken back"),
        tr("Blocks that stopped early"),
        tr("Entropy at the end, nats"),
    )


class CompareFigures(QWidget):
    """The table of figures and the entropy curves of two runs. Follows the overviews of both."""

    def __init__(self, left: Overview, right: Overview) -> None:
        super().__init__()
        self._overviews = (left, right)
        self.setAccessibleName(tr("Figures of both runs"))
        self.values: tuple[list[QLabel], list[QLabel]] = ([], [])
        self.curves = EntropyCurves()
        grid = QGridLayout()
        grid.setHorizontalSpacing(SPACE_4)
        grid.setVerticalSpacing(2)
        for column, text in enumerate((tr("Whole run"), tr("left"), tr("right"))):
            grid.addWidget(label(text, "caption"), 0, column, _side(column))
        for row, name in enumerate(names(), start=1):
            grid.addWidget(label(name, "caption"), row, 0)
            for side in (LEFT, RIGHT):
                made = label("", "frame")
                self.values[side].append(made)
                grid.addWidget(made, row, side + 1, _side(side + 1))
        grid.setRowStretch(grid.rowCount(), 1)
        self.setLayout(
            row_of(grid, (self.curves, 1), margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2), spacing=2 * SPACE_4)
        )
        for overview in self._overviews:
            overview.known.connect(self._know)
        self.refresh()

    def follow(self, left: Overview, right: Overview) -> None:
        """Sets the overviews of the left and the right run."""
        self._overviews = (left, right)
        self.refresh()

    def refresh(self) -> None:
        """Shows the figures that are known so far."""
        for side, overview in enumerate(self._overviews):
            for made, name, text in zip(self.values[side], names(), figures_of_run(overview), strict=True):
                made.setText(text)
                which = tr("left") if side == LEFT else tr("right")
                made.setAccessibleName(tr("{name}, {which}: {value}", name=name, which=which, value=text))
        self._draw()

    def show_block(self, block: int, step: int) -> None:
        """Draws the entropy of this block and marks ``step`` in it."""
        self.curves.place(block, step)
        self._draw()

    def _draw(self) -> None:
        found = [self._figures(overview) for overview in self._overviews]
        self.curves.show_values(*(None if one is None else one.mean_entropy for one in found))

    def _figures(self, overview: Overview) -> BlockFigures | None:
        block = self.curves.block
        return overview[block] if 0 <= block < len(overview.steps) else None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _know(self, _block: int) -> None:
        if self.isVisible():
            self.refresh()


def _side(column: int) -> Qt.AlignmentFlag:
    return Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft


class EntropyCurves(QWidget):
    """The mean entropy over the steps of a block: a solid line for the left run, a dashed one for the right run."""

    def __init__(self) -> None:
        super().__init__()
        self.values: tuple[Floats | None, Floats | None] = (None, None)  # of the left and the right run
        self.block, self._step = 0, 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(160, 96)

    def sizeHint(self) -> QSize:
        return QSize(px(320), px(144))

    def place(self, block: int, step: int) -> None:
        """Sets the block that is drawn and the step that is marked."""
        if (block, step) != (self.block, self._step):
            self.block, self._step = block, step
            self.update()

    def show_values(self, left: Floats | None, right: Floats | None) -> None:
        """Shows the mean entropies of both runs, each (S,) in nats; None draws no curve."""
        if left is self.values[LEFT] and right is self.values[RIGHT]:
            return
        self.values = (left, right)
        said = []
        if left is not None and len(left):
            said.append(tr("left from {first} to {last} nats", first=in_nats(left[0]), last=in_nats(left[-1])))
        if right is not None and len(right):
            said.append(tr("right from {first} to {last} nats", first=in_nats(right[0]), last=in_nats(right[-1])))
        self.setAccessibleName(tr("Mean entropy of block {block}", block=self.block + 1))
        self.setAccessibleDescription(tr("; ").join(said))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = themes.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = _font()
        painter.setFont(font)
        line = painter.fontMetrics().height()
        painter.setPen(color(theme.faint_ink))
        title = tr("Mean entropy of block {block}, nats", block=self.block + 1)
        painter.drawText(QRectF(0, 0, self.width(), line), Qt.AlignmentFlag.AlignLeft, title)
        self._paint_key(painter, line)
        known = [values for values in self.values if values is not None and len(values)]
        top = round_up(max((float(values.max()) for values in known), default=1.0))
        steps = max((len(values) for values in known), default=1)
        scale = tick(top)
        gutter = painter.fontMetrics().horizontalAdvance(scale) + 8
        area = QRectF(gutter, line + 8, max(1.0, self.width() - gutter - 4), max(1.0, self.height() - 2 * line - 16))
        painter.setPen(color(theme.faint_ink))
        right = Qt.AlignmentFlag.AlignRight
        painter.drawText(QRectF(0, area.top() - line / 2, gutter - 6, line), right, scale)
        painter.drawText(QRectF(0, area.bottom() - line / 2, gutter - 6, line), right, "0")
        painter.drawText(
            QRectF(area.left(), area.bottom() + 2, 80, line), Qt.AlignmentFlag.AlignLeft, str(step_number(0))
        )
        last = tr("step {step}", step=step_number(steps - 1))
        painter.drawText(QRectF(area.right() - 120, area.bottom() + 2, 120, line), right, last)
        painter.setPen(QPen(color(theme.line_strong), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        painter.drawLine(area.topLeft(), area.bottomLeft())
        at = _placer(area, steps, top)
        if known and 0 <= self._step < steps:
            painter.setPen(QPen(color(theme.accent), 1.5))
            painter.drawLine(QPointF(at(self._step, 0).x(), area.top()), QPointF(at(self._step, 0).x(), area.bottom()))
        for side, values in enumerate(self.values):
            if values is None or not len(values):
                continue
            painter.setPen(self._pen(side))
            points = [at(step, float(value)) for step, value in enumerate(values)]
            painter.drawPolyline(QPolygonF(points))
            painter.setBrush(painter.pen().color())
            painter.setPen(Qt.PenStyle.NoPen)
            for point in points if len(points) < 40 else points[-1:]:
                painter.drawEllipse(point, 2.5, 2.5)
            painter.setBrush(Qt.BrushStyle.NoBrush)

    def _pen(self, side: int) -> QPen:
        pen = QPen(color(themes.current().ink if side == LEFT else themes.current().accepted), 1.8)
        if side == RIGHT:
            pen.setStyle(Qt.PenStyle.DashLine)
        return pen

    def _paint_key(self, painter: QPainter, line: int) -> None:
        """Paints the key of the two lines, right of the title."""
        x = float(self.width())
        for side, text in ((RIGHT, tr("right")), (LEFT, tr("left"))):
            width = painter.fontMetrics().horizontalAdvance(text)
            x -= width
            painter.setPen(color(themes.current().faint_ink))
            painter.drawText(QRectF(x, 0, width, line), Qt.AlignmentFlag.AlignLeft, text)
            painter.setPen(self._pen(side))
            painter.drawLine(QPointF(x - 30, line / 2), QPointF(x - 6, line / 2))
            x -= 46


def _placer(area: QRectF, steps: int, top: float) -> Callable[[int, float], QPointF]:
    def at(step: int, value: float) -> QPointF:
        return QPointF(
            area.left() + area.width() * step / max(1, steps - 1), area.bottom() - area.height() * value / top
        )

    return at


def _font() -> QFont:
    font = ui_font()
    font.setPixelSize(px(TEXT_SMALL))
    return font
