"""Paints a board at one frame. The functions depend only on their arguments; ``BoardGlyphs`` is a cache.

Every state has a shape in addition to its colour. Noise is small and dim, a likely digit plain, an accepted one
underlined, one taken back in a dashed outline, a settled one solid, and a given bold on its own background. Cells in
conflict are joined by a line and have a corner. Wrong digits are struck through. A changed given is shown as a tag on
the cell. A cell in doubt has a question mark.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from PySide6.QtCore import QLineF, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs, Drawn, Face, visible
from app.canvas.geometry import Rect
from app.canvas.paint import state_color
from app.design.fonts import ui_font
from app.design.tokens import RADIUS, Theme, color, entropy_color, mixed, readable_on, set_inks, veil
from app.state.run.canvas import CellState
from app.state.sudoku.solve_frame import ShownCell, SolveFrame
from engine.tasks.sudoku import PEERS

SMALLEST_NOISE = 36
"""Smaller cells, in pixels, have no room for noise next to marks or a digit."""
SMALLEST_MARKED = 22
"""Smaller cells, in pixels, have no room for pencil marks next to a digit."""
MAX_TOP_MARKS = 4
"""The largest number of pencil marks along the top of a cell with a dominating digit."""
_TAG = 0.34
"""The side of the tag with a changed given, as a share of the cell's."""
_SURE = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


@dataclass(frozen=True)
class BoardPaintOptions:
    """The marks on a board that do not come from the frame."""

    cursor: int = -1
    hovered: int = -1
    focused: bool = False
    tint: float = 0.0  # 1 just after a change, falling to 0
    tinted: Mapping[int, CellState] | None = None  # changed cells
    shares: Sequence[float] | None = None  # 81 places on the colour scale, 0 to 1; NaN for no colour
    doubts: Collection[int] = ()  # cells that the user should check


def paint_board(
    painter: QPainter,
    geometry: BoardGeometry,
    frame: SolveFrame,
    theme: Theme,
    glyphs: BoardGlyphs,
    options: BoardPaintOptions,
    drawn: list[Drawn] | None = None,
) -> None:
    """Paints a board; ``drawn`` is an earlier result of ``texts``. The caller paints the area around it."""
    _paint_grounds(painter, geometry, frame, theme, options)
    _paint_lines(painter, geometry, theme)
    _paint_conflicts(painter, geometry, frame, theme)
    for index, cell in enumerate(frame.cells):
        if cell.in_conflict or cell.violated or cell.wrong or frame.started:
            _paint_shape(painter, geometry.rect_of(index), cell, theme)
    if drawn is None:
        drawn = texts(geometry, frame, theme, glyphs, options.shares, options.doubts)
    glyphs.paint(painter, drawn)
    for index, cell in enumerate(frame.cells):
        if cell.wrong and not cell.violated:
            _strike(painter, geometry.rect_of(index), theme)
    _paint_frame(painter, geometry, frame, theme)
    _paint_pointers(painter, geometry, theme, options)


def paint_sample(painter: QPainter, rect: Rect, cell: ShownCell, theme: Theme, glyphs: BoardGlyphs) -> None:
    painter.fillRect(*rect, given_ground(theme) if cell.given else color(theme.surface_sunken))
    _paint_shape(painter, rect, cell, theme)
    drawn: list[Drawn] = []
    _cell_texts(drawn, rect, cell, False, theme, glyphs)
    glyphs.paint(painter, drawn)
    if cell.wrong:
        _strike(painter, rect, theme)


def texts(
    geometry: BoardGeometry,
    frame: SolveFrame,
    theme: Theme,
    glyphs: BoardGlyphs,
    shares: Sequence[float] | None = None,
    doubts: Collection[int] = (),
) -> list[Drawn]:
    """Returns all texts of a board with place, size and colour; those of one face are adjacent."""
    drawn: list[Drawn] = []
    developing = frame.started and not frame.committed
    for index, cell in enumerate(frame.cells):
        if cell.given or cell.text or cell.marks:
            first = len(drawn)
            _cell_texts(drawn, geometry.rect_of(index), cell, developing, theme, glyphs)
            if shares is not None and not math.isnan(shares[index]):
                ink = readable_on(entropy_color(shares[index], theme))
                drawn[first:] = [text._replace(ink=ink) for text in drawn[first:]]
        if index in doubts:
            rect = geometry.rect_of(index)
            drawn.append(_text(rect, Face(max(round(0.3 * rect.width), 8), True), "?", 0.84, 0.78, color(theme.accent)))
    return sorted(drawn, key=attrgetter("face"))


def _cell_texts(
    drawn: list[Drawn], rect: Rect, cell: ShownCell, developing: bool, theme: Theme, glyphs: BoardGlyphs
) -> None:
    size, middle_x, middle_y = rect.width, rect.x + rect.width / 2, rect.y + rect.width / 2
    ink = _ink(cell, theme)
    if cell.violated:
        face = Face(round(0.50 * size))
        written = cell.digit or glyphs.elided(visible(cell.text), face, 0.6 * size)
        drawn.append(_text(rect, face, written, 0.60, 0.58, ink))
        tag = _TAG * size / 2
        drawn.append(
            Drawn(Face(round(0.29 * size), True), cell.given, rect.x + 2 + tag, rect.y + 2 + tag, color(theme.surface))
        )
    elif cell.given:
        drawn.append(Drawn(Face(round(0.56 * size), True), cell.given, middle_x, middle_y, ink))
    elif cell.digit:
        drawn.append(Drawn(Face(round(0.56 * size)), cell.digit, middle_x, middle_y, ink))
        if cell.state not in _SURE and size >= SMALLEST_MARKED:
            _top_marks(drawn, rect, cell, theme)
    elif cell.marks:
        _marks_in_places(drawn, rect, cell, theme)
    elif cell.text:
        face = Face(round(0.34 * size))
        text = glyphs.elided(visible(cell.text), face, 0.84 * size)
        drawn.append(Drawn(face, text, middle_x, middle_y, ink if cell.wrong else color(theme.noise)))
        return
    alone = not (cell.given or cell.digit or cell.marks)
    if developing and cell.state not in _SURE and cell.text and not alone:
        _corner_noise(drawn, rect, cell, theme, glyphs)


def _text(rect: Rect, face: Face, text: str, x: float, y: float, ink: QColor) -> Drawn:
    """Returns a text centred on a point, which is given in shares of its cell."""
    return Drawn(face, text, rect.x + x * rect.width, rect.y + y * rect.height, ink)


def _ink(cell: ShownCell, theme: Theme) -> QColor:
    if cell.violated or cell.wrong or cell.in_conflict:
        return color(theme.conflict)
    return color(theme.given) if cell.given else state_color(cell.state, theme)


def _top_marks(drawn: list[Drawn], rect: Rect, cell: ShownCell, theme: Theme) -> None:
    """Adds the other candidates in small digits along the top."""
    others = [mark for mark in cell.marks if mark.digit != cell.digit][:MAX_TOP_MARKS]
    for place, mark in enumerate(sorted(others)):
        drawn.append(
            _text(
                rect, _mark_face(rect, mark.probability), mark.digit, 0.14 + 0.2 * place, 0.13, color(theme.candidate)
            )
        )


def _marks_in_places(drawn: list[Drawn], rect: Rect, cell: ShownCell, theme: Theme) -> None:
    """Adds each candidate at its place in a grid of three by three, larger if it is likelier."""
    for mark in cell.marks:
        row, column = divmod(int(mark.digit) - 1, 3)
        x, y = 0.2 + 0.3 * column, 0.16 + 0.235 * row
        drawn.append(_text(rect, _mark_face(rect, mark.probability), mark.digit, x, y, color(theme.candidate)))


def _mark_face(rect: Rect, probability: float) -> Face:
    """Returns the face of a pencil mark, whose area grows with the probability."""
    return Face(max(round(rect.width * (0.14 + 0.25 * math.sqrt(probability))), 6))


def _corner_noise(drawn: list[Drawn], rect: Rect, cell: ShownCell, theme: Theme, glyphs: BoardGlyphs) -> None:
    """Adds the token on the canvas, which is not accepted, small in the corner."""
    if rect.width >= SMALLEST_NOISE and not cell.violated:
        face = Face(max(round(0.19 * rect.width), 8))
        text = glyphs.elided(visible(cell.text), face, 0.5 * rect.width)
        x = 0.93 - glyphs.width(text, face) / rect.width / 2
        drawn.append(_text(rect, face, text, x, 0.89, color(theme.noise)))


def _paint_grounds(
    painter: QPainter, geometry: BoardGeometry, frame: SolveFrame, theme: Theme, options: BoardPaintOptions
) -> None:
    side, size = geometry.side, geometry.cell
    painter.fillRect(geometry.left, geometry.top, side, side, color(theme.surface_sunken))
    shade = given_ground(theme)
    for index, cell in enumerate(frame.cells):
        if cell.given:
            painter.fillRect(*geometry.rect_of(index), shade)
        if index in options.doubts:
            painter.fillRect(*geometry.rect_of(index), veil(theme.accent, 0.16))
        if options.shares is not None and not math.isnan(options.shares[index]):
            painter.fillRect(*geometry.rect_of(index), entropy_color(options.shares[index], theme))
    if options.focused and 0 <= options.cursor < geometry.count:
        hint = veil(theme.selection, 0.30)
        for index in (options.cursor, *PEERS[options.cursor]):
            painter.fillRect(*geometry.rect_of(index), hint)
        same = veil(theme.selection, 0.62)
        digit = _shown(frame.cells[options.cursor])
        for index, cell in enumerate(frame.cells):
            if digit and _shown(cell) == digit:
                painter.fillRect(*geometry.rect_of(index), same)
    if 0 <= options.hovered < geometry.count and options.hovered != options.cursor:
        painter.fillRect(*geometry.rect_of(options.hovered), veil(theme.ink, 0.06))
    if options.tint > 0 and options.tinted:
        for index, state in options.tinted.items():
            rect = geometry.rect_of(index)
            painter.fillRect(rect.x, rect.y, size, size, veil(state_color(state, theme), 0.30 * options.tint))


@cache
def given_ground(theme: Theme) -> QColor:
    return mixed(color(theme.surface_sunken), color(theme.line), 0.6)


def _shown(cell: ShownCell) -> str:
    return cell.digit or cell.given


def _paint_lines(painter: QPainter, geometry: BoardGeometry, theme: Theme) -> None:
    left, top, side, size = geometry.left, geometry.top, geometry.side, geometry.cell
    thin, thick = mixed(color(theme.line), color(theme.line_strong), 0.35), color(theme.faint_ink)
    for pen, width, is_border in ((thin, 1, False), (thick, 2 if size >= 36 else 1, True)):
        for line in range(1, 9):
            if (line % 3 == 0) == is_border:
                painter.fillRect(left + line * size - width // 2, top, width, side, pen)
                painter.fillRect(left, top + line * size - width // 2, side, width, pen)


def _paint_frame(painter: QPainter, geometry: BoardGeometry, frame: SolveFrame, theme: Theme) -> None:
    developing = frame.started and not frame.committed
    pen = QPen(color(theme.accent if developing else theme.faint_ink), 2)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    set_inks(painter, pen, Qt.BrushStyle.NoBrush)
    painter.drawRect(QRectF(geometry.left, geometry.top, geometry.side, geometry.side))


def _paint_conflicts(painter: QPainter, geometry: BoardGeometry, frame: SolveFrame, theme: Theme) -> None:
    """Paints a line between each two cells in conflict."""
    if not frame.conflicts:
        return
    ink, width, off = veil(theme.conflict, 0.6), max(2, geometry.cell // 30), 0.36 * geometry.cell
    painter.setPen(_pen(ink, width))
    for a, b in frame.conflicts:
        (ax, ay), (bx, by) = _middle(geometry.rect_of(a)), _middle(geometry.rect_of(b))
        if ax == bx:  # a filled rectangle takes a tenth of the time of a drawn line
            painter.fillRect(QRectF(ax - width / 2, ay + off, width, by - ay - 2 * off), ink)
        elif ay == by:
            painter.fillRect(QRectF(ax + off, ay - width / 2, bx - ax - 2 * off, width), ink)
        else:
            line = QLineF(ax, ay, bx, by)
            dx, dy = off * line.dx() / line.length(), off * line.dy() / line.length()
            painter.drawLine(QLineF(ax + dx, ay + dy, bx - dx, by - dy))


def _paint_shape(painter: QPainter, rect: Rect, cell: ShownCell, theme: Theme) -> None:
    """Paints the mark that shows a cell's state without its colour."""
    size = rect.width
    painter.setPen(Qt.PenStyle.NoPen)
    if cell.state == CellState.ACCEPTED:
        painter.fillRect(
            QRectF(rect.x + 0.3 * size, rect.y + round(0.85 * size), 0.4 * size, max(2, size // 24)), _ink(cell, theme)
        )
    elif cell.state == CellState.TAKEN_BACK:
        painter.setBrush(state_color(cell.state, theme))
        painter.translate(rect.x, rect.y)
        painter.drawRects(_dashed_outline(size))
        painter.translate(-rect.x, -rect.y)
    elif cell.state == CellState.GIVEN:
        _corner(painter, rect, color(theme.given), left=True)
    if cell.in_conflict:
        _corner(painter, rect, color(theme.conflict), left=False)
    if cell.violated:
        painter.fillRect(QRectF(rect.x + 2, rect.y + 2, _TAG * size, _TAG * size), color(theme.given))
        set_inks(painter, QPen(color(theme.conflict), max(1.5, size / 32)), Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(rect.x + 2, rect.y + 2, size - 4, size - 4))


def _corner(painter: QPainter, rect: Rect, ink: QColor, *, left: bool) -> None:
    """Paints a small triangle in an upper corner."""
    size = max(5.0, 0.14 * rect.width)
    x, sign = (rect.x + 2, 1) if left else (rect.x + rect.width - 2, -1)
    set_inks(painter, Qt.PenStyle.NoPen, ink)
    y = rect.y + 2
    painter.drawPolygon(QPolygonF([QPointF(x, y), QPointF(x + sign * size, y), QPointF(x, y + size)]))


def _strike(painter: QPainter, rect: Rect, theme: Theme) -> None:
    size = rect.width
    painter.setPen(_pen(color(theme.conflict), max(1.5, size / 32)))
    painter.drawLine(
        QPointF(rect.x + 0.26 * size, rect.y + 0.66 * size), QPointF(rect.x + 0.74 * size, rect.y + 0.34 * size)
    )


def _paint_pointers(painter: QPainter, geometry: BoardGeometry, theme: Theme, options: BoardPaintOptions) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if 0 <= options.hovered < geometry.count and options.hovered != options.cursor:
        rect = geometry.rect_of(options.hovered)
        painter.setPen(QPen(color(theme.faint_ink), 1))
        painter.drawRect(QRectF(rect.x + 1.5, rect.y + 1.5, rect.width - 3, rect.height - 3))
    if 0 <= options.cursor < geometry.count:
        rect = geometry.rect_of(options.cursor)
        painter.setPen(QPen(color(theme.focus if options.focused else theme.faint_ink), 2 if options.focused else 1))
        painter.drawRect(QRectF(rect.x + 1, rect.y + 1, rect.width - 2, rect.height - 2))


def paint_invitation(painter: QPainter, geometry: BoardGeometry, theme: Theme, text: str) -> None:
    """Paints a text about what to do in the middle of an empty board."""
    painter.setFont(ui_font())
    wide = painter.fontMetrics().boundingRect(
        QRect(0, 0, geometry.side - 2 * geometry.cell, geometry.side), Qt.TextFlag.TextWordWrap, text
    )
    box = QRectF(0, 0, wide.width() + 32, wide.height() + 24)
    box.moveCenter(QPointF(geometry.left + geometry.side / 2, geometry.top + geometry.side / 2))
    set_inks(painter, Qt.PenStyle.NoPen, color(theme.surface_sunken))
    painter.drawRoundedRect(box, RADIUS, RADIUS)
    painter.setPen(color(theme.faint_ink))
    painter.drawText(box.adjusted(8, 8, -8, -8), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, text)


def _pen(ink: QColor, width: float) -> QPen:
    return QPen(ink, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)


def _middle(rect: Rect) -> tuple[float, float]:
    return rect.x + rect.width / 2, rect.y + rect.height / 2


@cache
def _dashed_outline(size: int) -> list[QRect]:
    """Returns the dashes of an outline inside a cell of this size; a dashed pen takes ten times as long."""
    dash, gap, thick = max(3, size // 12), max(2, size // 18), 1 if size < 60 else 2
    low, high = 3, size - 3
    spans = [(place, min(dash, high - place)) for place in range(low, high, dash + gap)]
    across = [QRect(place, y, length, thick) for place, length in spans for y in (low, high - thick)]
    return across + [QRect(x, place, thick, length) for place, length in spans for x in (low, high - thick)]
