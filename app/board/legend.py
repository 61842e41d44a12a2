"""The legend of the marks on a board, with small samples painted by the board's own functions."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.board.glyphs import BoardGlyphs, Drawn, Face
from app.board.paint import paint_sample
from app.board.view import BlockBoard
from app.canvas.geometry import Rect
from app.canvas.heat import Heat
from app.canvas.legend import Legend, LegendEntry
from app.canvas.paint import state_color
from app.canvas.words import STATE_TIPS, STATE_WORDS
from app.design.fonts import px
from app.design.layouts import UNLIMITED, column_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4, Theme, color
from app.state.run.canvas import CellState
from app.state.sudoku.solve_frame import ShownCell
from app.system.i18n import tr

LEGEND_WIDTH = 176  # pixels at 100 %, next to the board
LOW = 280  # pixels at 100 %; below this height a legend under the board is hidden, and tool tips say what it says
_PLAIN = ShownCell(CellState.SETTLED, "7", "7", "", (), None, 0, False, False, False)
_GIVEN = _PLAIN._replace(given="7")
_SHOWN = (CellState.ACCEPTED, CellState.TAKEN_BACK, CellState.SETTLED)


class BoardPane(QWidget):
    """A board as large as the space allows, with its legend next to it if there is room, else below or hidden."""

    def __init__(self, board: BlockBoard | None = None) -> None:
        super().__init__()
        self.board = BlockBoard() if board is None else board
        self.legend = BoardLegend()
        self._is_heated = False  # if True, the legend is one long line
        margins = (SPACE_4, SPACE_1, SPACE_4, SPACE_1)
        self._layout = column_of((self.board, 100), self.legend, margins=margins, spacing=SPACE_2)
        self.setLayout(self._layout)

    def set_heat(self, heat: Heat | None) -> None:
        """Colours the cells by a figure and explains the colours; None shows only the states."""
        self.board.set_heat(heat)
        self.legend.set_heat(heat)
        if self._is_heated != (heat is not None):
            self._is_heated = heat is not None
            self._arrange()

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._arrange()

    def _arrange(self) -> None:
        is_at_side = not self._is_heated and self.width() >= self.height() + px(LEGEND_WIDTH)
        self._layout.setDirection(QBoxLayout.Direction.LeftToRight if is_at_side else QBoxLayout.Direction.TopToBottom)
        self._layout.setStretch(1, 1 if is_at_side else 0)  # the legend has no preferred width
        self.legend.setVisible(is_at_side or self._is_heated or self.height() >= px(LOW))
        self.legend.setMinimumWidth(px(LEGEND_WIDTH) if is_at_side else 0)
        self.legend.setMaximumWidth(px(LEGEND_WIDTH) if is_at_side else UNLIMITED)


class BoardLegend(Legend):
    """The legend of a board: the marks of its cells, or what their colours mean."""

    def __init__(self) -> None:
        super().__init__()
        self._glyphs = BoardGlyphs()
        self.setAccessibleName(tr("Marks on the board"))
        self.set_heat(None)

    def set_heat(self, heat: Heat | None) -> None:
        """Explains the colours of the cells; without any, the marks."""
        if heat is None:
            entries = mark_entries(self._glyphs)
        else:
            words = tr("{name}, {low} to {high}", name=heat.name, low=heat.low, high=heat.high)
            entries = [LegendEntry(words, None)]
        if [entry.words for entry in entries] != self.words:
            self.set_entries(entries)
            self.setAccessibleDescription(", ".join(self.words))


def mark_entries(glyphs: BoardGlyphs) -> list[LegendEntry]:
    conflict = tr("The digit stands twice in a row, a column or a box")
    return [
        _sample(glyphs, tr("given"), _GIVEN, tr("A digit of the puzzle")),
        # A token of noise, larger than in a cell, where it would be unreadable.
        LegendEntry(
            tr("noise"),
            partial(_paint_texts, glyphs, CellState.NOISE, (("ø", 0.56, 0.5, 0.5),)),
            tip=tr(STATE_TIPS[CellState.NOISE]),
        ),
        # Two pencil marks, one likelier than the other; a sample is too small for nine places.
        LegendEntry(
            tr("possible, by size"),
            partial(_paint_texts, glyphs, CellState.CANDIDATE, (("3", 0.62, 0.3, 0.36), ("7", 0.45, 0.76, 0.7))),
            tip=tr("The digits that the model considers, the likelier the larger"),
        ),
        _of_state(glyphs, tr("likely"), CellState.CANDIDATE),
        *(_of_state(glyphs, tr(STATE_WORDS[state]), state) for state in _SHOWN),
        _sample(glyphs, tr("in conflict"), _PLAIN._replace(in_conflict=True), conflict),
        _sample(
            glyphs,
            tr("changed given"),
            _GIVEN._replace(digit="2", violated=True),
            tr("The model wrote another digit than the puzzle has"),
        ),
        _sample(glyphs, tr("wrong"), _PLAIN._replace(wrong=True), tr("Not the digit of the solution")),
    ]


def _sample(glyphs: BoardGlyphs, words: str, cell: ShownCell, tip: str) -> LegendEntry:
    return LegendEntry(words, partial(_paint_cell, glyphs, cell), tip=tip)


def _of_state(glyphs: BoardGlyphs, words: str, state: CellState) -> LegendEntry:
    return _sample(glyphs, words, _PLAIN._replace(state=state), tr(STATE_TIPS[state]))


def _paint_cell(glyphs: BoardGlyphs, cell: ShownCell, painter: QPainter, area: QRectF, theme: Theme) -> None:
    font = painter.font()
    paint_sample(painter, _rect(area), cell, theme, glyphs)
    painter.setFont(font)


def _paint_texts(
    glyphs: BoardGlyphs,
    state: CellState,
    texts: tuple[tuple[str, float, float, float], ...],
    painter: QPainter,
    area: QRectF,
    theme: Theme,
) -> None:
    """Paints texts in a state's colour; ``wanted`` has text, size, x and y as shares of the sample's side."""
    font, rect = painter.font(), _rect(area)
    side, ink = rect.width, state_color(state, theme)
    painter.fillRect(*rect, color(theme.surface_sunken))
    drawn = [
        Drawn(Face(round(size * side)), text, rect.x + x * side, rect.y + y * side, ink) for text, size, x, y in texts
    ]
    glyphs.paint(painter, drawn)
    painter.setFont(font)


def _rect(area: QRectF) -> Rect:
    return Rect(round(area.x()), round(area.y()), round(area.width()), round(area.width()))
