"""Paints one block and its legend. The functions depend on their arguments only; ``CellGlyphs`` is the only cache.

Every state has a shape as well as a colour: noise is dim and small, candidate plain, accepted underlined; taken back
has a dashed outline. Settled is plain ink, given is bold with a corner mark, padding is a dot, and a token that fits a
format has an open corner. A masked cell is empty, on a faint ground. The slots of a decision have a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from app.canvas.geometry import Geometry, Rect
from app.canvas.glyphs import CellGlyphs, Glyph
from app.canvas.heat import NONE, Heat, places
from app.canvas.legend import paint_scale
from app.canvas.words import SLOT, STATE_WORDS, LegendKey
from app.design.tokens import Theme, color, entropy_color, readable_on, set_inks, veil
from app.state.run.canvas import BlockState, CellState
from app.system.i18n import tr

LEGEND_STATES = (CellState.NOISE, CellState.CANDIDATE, CellState.ACCEPTED, CellState.TAKEN_BACK, CellState.SETTLED)
MASKED_LEGEND = (CellState.MASKED, CellState.CANDIDATE, CellState.ACCEPTED, CellState.SETTLED)
DECISION_LEGEND: tuple[LegendKey, ...] = (CellState.NOISE, CellState.ACCEPTED, CellState.GIVEN, SLOT)
_COLORS: dict[CellState, Callable[[Theme], str]] = {
    CellState.NOISE: attrgetter("noise"),
    CellState.CANDIDATE: attrgetter("candidate"),
    CellState.ACCEPTED: attrgetter("accepted"),
    CellState.TAKEN_BACK: attrgetter("taken_back"),
    CellState.SETTLED: attrgetter("settled"),
    CellState.GIVEN: attrgetter("given"),
    CellState.PADDING: attrgetter("padding"),
    CellState.FITTING: attrgetter("settled"),
    CellState.MASKED: attrgetter("line"),
}


@dataclass(frozen=True)
class PaintOptions:
    """The options of painting a block: the view, the colours, and the marked cells."""

    calm: bool = True
    selected: int = -1
    hovered: int = -1
    focused: bool = False
    tint: float = 0.0  # 1 just after a change, falling to 0
    tinted: Mapping[int, CellState] | None = None  # changed cells and their new states
    heat: Heat | None = None  # colours the cells
    slots: tuple[int, ...] = ()  # positions where a decision's questions are answered


def state_color(state: CellState, theme: Theme) -> QColor:
    return color(_COLORS[state](theme))


def paint_block(
    painter: QPainter,
    geometry: Geometry,
    block: BlockState,
    theme: Theme,
    glyphs: CellGlyphs,
    glyph: Callable[[int], Glyph],
    options: PaintOptions,
    clip: QRect | None = None,
) -> None:
    """Paints the cells of a block: all, or those that touch ``clip``. The caller paints the background."""
    states = block.states(calm=options.calm).tolist()
    tokens = block.tokens(calm=options.calm).tolist()
    heat = options.heat
    shares = None if heat is None or len(heat.shares) != block.length else places(heat.shares, _RAMP_STEPS)
    _paint_rules(painter, geometry, theme)
    if options.tint > 0 and options.tinted:
        for index, state in options.tinted.items():
            painter.fillRect(QRect(*geometry.cells[index]), veil(state_color(state, theme), 0.34 * options.tint))
    brush = _CellBrush(painter, theme, glyphs, geometry.cell_width, geometry.cell_height)
    clip = clip or QRect(0, 0, geometry.width, geometry.height)
    left, top, right, bottom = clip.left(), clip.top(), clip.right(), clip.bottom()
    for index, rect in enumerate(geometry.cells):
        if rect.x > right or rect.y > bottom or rect.x + rect.width < left or rect.y + rect.height < top:
            continue
        state = states[index]
        share = None
        if shares is not None and state != CellState.PADDING and shares[index] != NONE:
            share = shares[index]
            painter.fillRect(*rect, brush.ramp[share][0])
        elif index == options.hovered:
            painter.fillRect(*rect, color(theme.line))
        brush.paint(rect, glyph(tokens[index]), state, share)
    _paint_marks(painter, geometry, theme, options)


_FACES: dict[int, str] = {CellState.NOISE: "small", CellState.GIVEN: "bold"}
_RAMP_STEPS = 64


class _CellBrush:
    """Paints cells of one size; made once for each painting."""

    def __init__(self, painter: QPainter, theme: Theme, glyphs: CellGlyphs, width: int, height: int) -> None:
        self.painter, self.theme, self.glyphs = painter, theme, glyphs
        self.width, self.height = width, height
        self.baseline = glyphs.baseline(height)
        self.one_character = glyphs.is_narrow(width)
        self.inks = {int(state): state_color(state, theme) for state in CellState}
        self.dim = color(theme.noise)
        self.ramp = _ramp(theme)
        self._face = ""  # the painter's current typeface; setting a font is slow

    def paint(self, rect: Rect, glyph: Glyph, state: int, share: int | None) -> None:
        """Paints one cell; ``share`` is its position on the colour ramp."""
        ink = self.inks[state] if share is None else self.ramp[share][1]
        if state in _DECORATED:
            # Most of a canvas may be end tokens; their marks must not stand out more than the text.
            quiet = glyph.kind == "end" and state == CellState.ACCEPTED and share is None
            self._decorate(rect, state, self.dim if quiet else ink)
        if state == CellState.MASKED:
            if share is None:
                self._mask(rect, ink)
            return
        if glyph.kind == "end" or state == CellState.PADDING:
            self._dot(rect, state, None if share is None else ink)
            return
        painter = self.painter
        face = "small" if glyph.kind == "sign" else _FACES.get(state, "plain")
        layout, width, ascent = self.glyphs.layout(glyph.text, face, self.width - 4)
        left = rect.x + (self.width - width) / 2 if self.one_character else rect.x + 4
        painter.setPen(self.dim if glyph.kind == "sign" and share is None else ink)
        if face != self._face:
            painter.setFont(self.glyphs.faces[face])
            self._face = face
        painter.drawStaticText(QPointF(left, rect.y + self.baseline - ascent), layout)

    def _decorate(self, rect: Rect, state: int, ink: QColor) -> None:
        painter = self.painter
        if state == CellState.ACCEPTED:
            painter.fillRect(rect.x + 3, rect.y + self.height - 4, rect.width - 6, 2, ink)
        elif state == CellState.TAKEN_BACK:
            self._dashes(rect, ink)
        elif state == CellState.FITTING:
            painter.fillRect(rect.x + 1, rect.y + 1, 7, 2, ink)
            painter.fillRect(rect.x + 1, rect.y + 1, 2, 7, ink)
        else:
            set_inks(painter, Qt.PenStyle.NoPen, ink)
            x, y = rect.x + 1, rect.y + 1
            painter.drawPolygon(QPolygonF([QPointF(x, y), QPointF(x + 6, y), QPointF(x, y + 6)]))

    def _dashes(self, rect: Rect, ink: QColor) -> None:
        """Draws a dashed outline as single rectangles: a dashed pen takes ten times as long."""
        painter = self.painter
        set_inks(painter, Qt.PenStyle.NoPen, ink)
        painter.translate(rect.x, rect.y)
        painter.drawRects(_dashed_outline(rect.width, rect.height))
        painter.translate(-rect.x, -rect.y)

    def _mask(self, rect: Rect, ink: QColor) -> None:
        """Draws a masked cell: a faint ground, as high as a letter."""
        inset = max(4, self.height // 5)
        self.painter.fillRect(rect.x + 1, rect.y + inset, rect.width - 2, self.height - 2 * inset, veil(ink, 0.6))

    def _dot(self, rect: Rect, state: int, ink: QColor | None) -> None:
        """Draws an end token as a dot larger than the sign for a space; smaller and fainter for padding."""
        radius = 1.5 if state == CellState.PADDING else 2.5
        set_inks(self.painter, Qt.PenStyle.NoPen, ink or (self.inks[state] if state == CellState.PADDING else self.dim))
        middle = rect.x + (rect.width / 2 if self.one_character else 4 + self.glyphs.character_width / 2)
        self.painter.drawEllipse(QPointF(middle, rect.y + rect.height / 2), radius, radius)


_DECORATED = {int(CellState.ACCEPTED), int(CellState.TAKEN_BACK), int(CellState.GIVEN), int(CellState.FITTING)}


@cache
def _dashed_outline(width: int, height: int) -> list[QRect]:
    """Returns the dashes just inside the edges of a cell of this size."""
    right, bottom = width - 2, height - 2
    across = [QRect(x, y, min(3, right + 1 - x), 1) for x in range(1, right, 5) for y in (1, bottom)]
    down = [QRect(x, y, 1, min(3, bottom + 1 - y)) for y in range(1, bottom, 5) for x in (1, right)]
    return across + down


@cache
def _ramp(theme: Theme) -> tuple[tuple[QColor, QColor], ...]:
    """Returns the colours of the entropy scale: for each step the background, and a text colour readable on it."""
    shades = [entropy_color(step / _RAMP_STEPS, theme) for step in range(_RAMP_STEPS + 1)]
    return tuple((shade, readable_on(shade)) for shade in shades)


def _paint_rules(painter: QPainter, geometry: Geometry, theme: Theme) -> None:
    if not geometry.count:
        return
    rule = color(theme.line)
    for row in range(geometry.rows - 1):
        rect = geometry.rect_of(geometry.starts[row])
        width = geometry.columns * (geometry.cell_width + 2) - 2
        painter.fillRect(QRectF(rect.x, rect.y + rect.height + 0.5, width, 0.5), rule)


def _paint_slot(painter: QPainter, rect: Rect, theme: Theme) -> None:
    set_inks(painter, QPen(color(theme.accent), 2), Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(QRectF(rect.x + 1.5, rect.y + 1.5, rect.width - 3, rect.height - 3), 4, 4)


def _paint_marks(painter: QPainter, geometry: Geometry, theme: Theme, options: PaintOptions) -> None:
    for slot in options.slots:
        if 0 <= slot < geometry.count:
            _paint_slot(painter, geometry.cells[slot], theme)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if 0 <= options.hovered < geometry.count and options.hovered != options.selected:
        rect = geometry.cells[options.hovered]
        painter.setPen(QPen(color(theme.faint_ink), 1))
        painter.drawRect(QRectF(rect.x - 0.5, rect.y - 0.5, rect.width + 1, rect.height + 1))
    if 0 <= options.selected < geometry.count:
        rect = geometry.cells[options.selected]
        painter.setPen(QPen(color(theme.focus if options.focused else theme.faint_ink), 2))
        painter.drawRect(QRectF(rect.x - 1, rect.y - 1, rect.width + 2, rect.height + 2))


def legend_entries(block: BlockState | None, slots: Sequence[int] = ()) -> tuple[LegendKey, ...]:
    """Returns the entries of a block's legend; for a decision only the states that occur there."""
    if slots:
        return DECISION_LEGEND
    usual = MASKED_LEGEND if block is not None and block.has_masks else LEGEND_STATES
    if block is not None and block.has_masks and block.taken_back_total:
        usual = (*usual[:-1], CellState.TAKEN_BACK, usual[-1])
    if block is None or not block.pinned_mask.any():
        return usual
    if not block.fitting_mask.any():
        return (*usual, CellState.GIVEN)
    return (*usual, CellState.GIVEN, CellState.FITTING)


def legend_widths(glyphs: CellGlyphs, entries: Sequence[LegendKey]) -> list[int]:
    """Returns the width of each legend entry: a sample cell and its label, in pixels."""
    sample = glyphs.cell_width(["a"])
    return [sample + 8 + glyphs.label_width(tr(STATE_WORDS[entry])) for entry in entries]


def paint_legend(
    painter: QPainter,
    geometry: Geometry,
    theme: Theme,
    glyphs: CellGlyphs,
    entries: Sequence[LegendKey],
    bar_text: tuple[str, str] | None = None,
) -> None:
    """Paints the legend: the states, and a colour bar with a text at each end."""
    sample = glyphs.cell_width(["a"])
    for rect, entry in zip(geometry.legend, entries, strict=True):
        brush = _CellBrush(painter, theme, glyphs, sample, rect.height - 2)
        cell = Rect(rect.x, rect.y, sample, rect.height - 2)
        brush.paint(cell, Glyph("a", "text"), entry if isinstance(entry, CellState) else CellState.ACCEPTED, None)
        if entry == SLOT:
            _paint_slot(painter, cell, theme)
        painter.setFont(glyphs.label)
        painter.setPen(color(theme.faint_ink))
        words = QRect(rect.x + sample + 8, rect.y, rect.width, rect.height - 2)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, tr(STATE_WORDS[entry]))
    if geometry.bar is not None and bar_text is not None:
        _paint_bar(painter, geometry.bar, theme, glyphs, bar_text)


def _paint_bar(painter: QPainter, rect: Rect, theme: Theme, glyphs: CellGlyphs, text: tuple[str, str]) -> None:
    low, high = text
    painter.setFont(glyphs.label)
    painter.setPen(color(theme.faint_ink))
    middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
    before = glyphs.label_width(low) + 8
    after = glyphs.label_width(high) + 8
    width = max(min(rect.width - before - after, 240), 24)
    bar = QRect(rect.x + before, rect.y + (rect.height - 8) // 2, width, 8)
    painter.drawText(QRect(rect.x, rect.y, before, rect.height), middle, low)
    painter.drawText(QRect(bar.right() + 9, rect.y, after + 8, rect.height), middle, high)
    paint_scale(painter, QRectF(bar), theme)
