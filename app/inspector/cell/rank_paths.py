"""Paints a position's history: candidates by rank over the steps, the sampled ones, and the entropy.

The functions depend on their arguments only. Every state has the same shape as on the canvas: accepted is filled and
underlined, re-noised is hollow, taken back has a dashed outline. A token is identified by its text; its colour only
helps the eye to follow a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPolygonF

from app.design.fonts import px
from app.design.tokens import Theme, color, luminance, set_inks, veil
from app.state.run.cell_history import OUTSIDE, History, RankLine
from app.system.i18n import tr

COLORED = 8
"""The number of tokens with their own colour: those with the most probability over all steps."""
_HUES = (205, 28, 140, 325, 55, 265, 175, 0)  # degrees; neighbours in the list differ strongly
TAIL = 76  # pixels at 100 % after the last step, for the tokens at the ends of the lines
_PLAIN_LABEL = 12  # most characters shown of a token
Text = Callable[[int], str]


@dataclass(frozen=True)
class Plot:
    """The layout of the chart, in logical pixels. Rows are ranks, from the top."""

    left: float  # left edge of step 0's column
    column: float  # width
    steps: int
    top: float  # top of the first row
    row: float  # height
    depth: int  # recorded candidates per step; with 0 there is one row, of the sampled candidates
    outside: bool  # True if there is a row for samples outside the recorded candidates
    gap: float  # between the rows and the entropy
    entropy: float  # height of the entropy curve
    gutter: float  # width of the row names on the left

    @property
    def rows(self) -> int:
        return self.depth + self.outside

    @property
    def entropy_top(self) -> float:
        return self.top + self.rows * self.row + self.gap

    @property
    def bottom(self) -> float:
        return self.entropy_top + self.entropy

    @property
    def right(self) -> float:
        """The right edge of the last column."""
        return self.left + self.steps * self.column

    def x(self, step: int) -> float:
        """Returns the middle of a step's column."""
        return self.left + step * self.column + self.column // 2

    def y(self, rank: int) -> float:
        """Returns the middle of a rank's row. The row for ``OUTSIDE`` is below all others."""
        return self.top + ((self.depth if rank == OUTSIDE else rank) + 0.5) * self.row

    @property
    def radius(self) -> float:
        """The radius of the mark of a sampled candidate."""
        return max(2.0, min(self.column * 0.36, self.row * 0.24, px(6)))


def line_colors(theme: Theme) -> tuple[QColor, ...]:
    """Returns colours for tokens' lines, similar in weight and readable on the sunken surface of the theme."""
    colors = []
    for hue in _HUES:
        lightness = 0.66 if theme.dark else 0.40
        shade = QColor.fromHslF(hue / 360, 0.62, lightness)
        while not theme.dark and luminance(shade) > 0.16 and lightness > 0.1:
            lightness -= 0.02
            shade = QColor.fromHslF(hue / 360, 0.62, lightness)
        colors.append(shade)
    return tuple(colors)


def paint_history(painter: QPainter, plot: Plot, bio: History, theme: Theme, text: Text, font: QFont) -> None:
    """Paints everything except the cursor and the row names. The caller paints the background."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(font)
    _paint_rules(painter, plot, theme)
    shades = {line.token: shade for line, shade in zip(bio.lines[:COLORED], line_colors(theme), strict=False)}
    _paint_lines(painter, plot, bio.lines[COLORED:], color(theme.noise))
    for line in reversed(bio.lines[:COLORED]):  # the likeliest on top
        _paint_lines(painter, plot, [line], shades[line.token])
    _paint_marks(painter, plot, bio, theme, shades)
    _paint_names(painter, plot, bio, theme, shades, text, QFontMetricsF(font))
    _paint_entropy(painter, plot, bio, theme)


def paint_row_names(painter: QPainter, plot: Plot, bio: History, theme: Theme, font: QFont) -> None:
    """Paints the ranks and the scale of the entropy in the gutter."""
    painter.setFont(font)
    painter.setPen(color(theme.faint_ink))
    names = [str(rank + 1) for rank in range(plot.depth)]
    if plot.outside:
        names.append(f">{plot.depth}" if plot.depth else tr("sampled"))
    right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
    for row, name in enumerate(names):
        painter.drawText(QRectF(0, plot.top + row * plot.row, plot.gutter - px(8), plot.row), right, name)
    if plot.steps:
        high = QRectF(0, plot.entropy_top - px(2), plot.gutter - px(8), px(16))
        painter.drawText(high, right, f"{entropy_limit(bio):.1f}")
        painter.drawText(QRectF(0, plot.bottom - px(14), plot.gutter - px(8), px(16)), right, "0")


def entropy_limit(bio: History) -> float:
    """Returns the top of the entropy scale in nats: the highest entropy, at least 0.1, so that noise stays small."""
    return max(float(bio.entropy.max(initial=0.0)), 0.1)


def _paint_rules(painter: QPainter, plot: Plot, theme: Theme) -> None:
    painter.setPen(QPen(color(theme.line), 1))
    for row in range(plot.rows):
        y = round(plot.y(row if row < plot.depth else OUTSIDE)) + 0.5
        painter.drawLine(QPointF(plot.left, y), QPointF(plot.right, y))


_LEVELS = 16


def _pen(shade: QColor, share: float, plot: Plot) -> QPen:
    """Returns a pen for a probability (``share``): the likelier, the thicker and more opaque."""
    pen = QPen(veil(shade, 0.35 + 0.65 * share), 1.2 + (plot.row * 0.3 - 1.2) * share)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)  # overlapping round ends of two faint pieces would look like a dot
    return pen


def _paint_lines(painter: QPainter, plot: Plot, lines: Sequence[RankLine], shade: QColor) -> None:
    """Paints straight pieces, grouped by pen: an antialiased curve takes a hundred times as long."""
    pieces: list[list[QLineF]] = [[] for _ in range(_LEVELS + 1)]
    xs = [plot.x(step) for step in range(plot.steps)]
    ys = [plot.y(rank) for rank in range(plot.depth)]
    half = plot.column * 0.25
    for line in lines:
        for stretch in line.stretches:
            for a, b in pairwise(stretch):
                level = round(_LEVELS * (a.share + b.share) / 2)
                pieces[level].append(QLineF(xs[a.step], ys[a.rank], xs[b.step], ys[b.rank]))
            if len(stretch) == 1:
                step, rank, share = stretch[0]
                piece = QLineF(xs[step] - half, ys[rank], xs[step] + half, ys[rank])
                pieces[round(_LEVELS * share)].append(piece)
    for level, strokes in enumerate(pieces):
        if strokes:
            painter.setPen(_pen(shade, level / _LEVELS, plot))
            painter.drawLines(strokes)


def _paint_marks(painter: QPainter, plot: Plot, bio: History, theme: Theme, shades: dict[int, QColor]) -> None:
    ink = color(theme.ink)
    for step, (token, rank) in enumerate(zip(bio.candidates.tolist(), bio.candidate_ranks.tolist(), strict=True)):
        where = QPointF(plot.x(step), plot.y(rank))
        paint_sample(painter, where, plot.radius, theme, bool(bio.accepted[step]), shades.get(token, ink))
        if bio.taken_back[step]:
            paint_taken_back(painter, where, plot.radius, theme)
    for step, rank in enumerate(bio.argmax_ranks.tolist()):
        at = bio.accepted[step] and rank == bio.candidate_ranks[step]
        if rank != OUTSIDE:
            shade = color(theme.surface_sunken if at else theme.ink)
            paint_argmax(painter, QPointF(plot.x(step), plot.y(rank)), plot.radius, shade)


def paint_sample(
    painter: QPainter, where: QPointF, radius: float, theme: Theme, accepted: bool, shade: QColor | None = None
) -> None:
    """Paints a sampled candidate: filled and underlined if it was accepted, hollow if it was re-noised."""
    ink = shade or color(theme.accepted if accepted else theme.candidate)
    set_inks(painter, QPen(ink, 1.4), ink if accepted else color(theme.surface_sunken))
    painter.drawEllipse(where, radius, radius)
    if accepted:
        painter.fillRect(QRectF(where.x() - radius, where.y() + radius + 2, 2 * radius, 2), color(theme.accepted))


def paint_taken_back(painter: QPainter, where: QPointF, radius: float, theme: Theme) -> None:
    """Paints a dashed outline as single rectangles: a dashed pen takes a hundred times as long."""
    set_inks(painter, Qt.PenStyle.NoPen, color(theme.taken_back))
    painter.translate(where)
    painter.drawRects(_dashes(radius + 3))
    painter.translate(-where)


@cache
def _dashes(half: float) -> list[QRectF]:
    """Returns the dashes along the sides of a square around the origin. Each side begins and ends with a dash."""
    count = max(2, round(2 * half / 5))
    dash = 2 * half / (2 * count - 1)
    starts = [-half + 2 * place * dash for place in range(count)]
    wide = 1.4
    across = [QRectF(start, side, dash, wide) for start in starts for side in (-half, half - wide)]
    down = [QRectF(side, start, wide, dash) for start in starts for side in (-half, half - wide)]
    return across + down


def paint_argmax(painter: QPainter, where: QPointF, radius: float, shade: QColor) -> None:
    """Paints a small square."""
    half = max(1.5, radius * 0.4)
    painter.fillRect(QRectF(where.x() - half, where.y() - half, 2 * half, 2 * half), shade)


def _paint_names(
    painter: QPainter,
    plot: Plot,
    bio: History,
    theme: Theme,
    shades: dict[int, QColor],
    text: Text,
    metrics: QFontMetricsF,
) -> None:
    """Paints tokens at the ends of their lines, and above the rows wherever the best guess changes."""
    last = bio.steps - 1
    for rank, token in enumerate(bio.top_tokens[last].tolist() if bio.steps else ()):
        place = QRectF(plot.right + px(6), plot.top + rank * plot.row, px(TAIL), plot.row)
        painter.setPen(shades.get(token, color(theme.faint_ink)))
        painter.drawText(
            place, _LEFT, metrics.elidedText(text(token), Qt.TextElideMode.ElideRight, place.width() - px(8))
        )
    free, top, runs = plot.left, plot.top - px(16), bio.argmax_runs
    for run, following in zip(runs, [*(one.start for one in runs[1:]), None], strict=True):
        x = plot.left + run.start * plot.column
        painter.setPen(QPen(shades.get(run.token, color(theme.ink)), 1))
        painter.drawLine(QPointF(x + 1.5, top + px(2)), QPointF(x + 1.5, top + px(14)))
        room = (plot.right + px(TAIL - 12) if following is None else plot.left + following * plot.column) - x - px(6)
        written = metrics.elidedText(short(text(run.token)), Qt.TextElideMode.ElideRight, room)
        if x >= free and written and (written != "…"):  # else it would touch its neighbour
            painter.drawText(QRectF(x + px(5), top, room + px(2), px(16)), _LEFT, written)
            free = x + px(5) + metrics.horizontalAdvance(written)


_LEFT = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft


def _paint_entropy(painter: QPainter, plot: Plot, bio: History, theme: Theme) -> None:
    base = plot.bottom
    painter.setPen(QPen(color(theme.line_strong), 1))
    painter.drawLine(QPointF(plot.left, round(base) + 0.5), QPointF(plot.right, round(base) + 0.5))
    if not bio.steps:
        return
    scale = plot.entropy / entropy_limit(bio)
    points = [QPointF(plot.x(step), base - value * scale) for step, value in enumerate(bio.entropy.tolist())]
    if len(points) == 1:
        points = [points[0] - QPointF(plot.column / 4, 0), points[0] + QPointF(plot.column / 4, 0)]
    area = QPolygonF([QPointF(points[0].x(), base), *points, QPointF(points[-1].x(), base)])
    set_inks(painter, Qt.PenStyle.NoPen, veil(theme.faint_ink, 0.22))
    painter.drawPolygon(area)
    set_inks(painter, QPen(color(theme.faint_ink), 1.4), Qt.BrushStyle.NoBrush)
    for a, b in pairwise(points):  # one by one: joining a polyline is slow
        painter.drawLine(a, b)


def short(text: str) -> str:
    """Returns a token's text, shortened for a chart."""
    return text if len(text) <= _PLAIN_LABEL else text[: _PLAIN_LABEL - 1] + "…"
