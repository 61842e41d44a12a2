"""The widget that shows one block: its layout, painting and keyboard navigation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from PySide6.QtCore import QEasingCurve, QEvent, QPoint, QRect, QSize, Qt, QVariantAnimation
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.canvas import words
from app.canvas.geometry import MARGIN, Geometry
from app.canvas.glyphs import CellGlyphs, Glyph, glyph_of
from app.canvas.grid_view import GridView
from app.canvas.heat import Heat
from app.canvas.paint import (
    PaintOptions,
    legend_entries,
    legend_widths,
    paint_block,
    paint_legend,
)
from app.design import themes
from app.design.controls import grow_with_width
from app.design.focus_rings import is_ringed
from app.design.fonts import canvas_font, px, ui_font
from app.design.tokens import FADE_MS, color, set_inks
from app.state.run.canvas import BlockState, Cell, CellState
from app.state.run.lines import line_ends
from app.system.i18n import tr

GLYPHS = 65_536  # tokens whose glyphs are remembered
LEGEND_HEIGHT = 28
BAR_HEIGHT = 20
EMPTY_ROWS = 3
PREFERRED_WIDTH = 640
EMPTY_TEXT = "The canvas is empty. Ask for something, and watch it develop here."


class CanvasView(GridView):
    """One block as a grid of cells on the lines of its text (``app.state.run.canvas``), its legend underneath."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._piece: Callable[[int], str] = str
        self._glyph = _glyphs_of(str, None)
        self._is_other_run = False  # since the last block
        self._glyphs = CellGlyphs(canvas_font())
        self._calm = True
        self._heat: Heat | None = None
        self._columns: int | None = None
        self.block: BlockState | None = None  # a snapshot: the reducer keeps changing its own block
        self._ends: tuple[int, ...] = ()  # positions after which a line of text ends
        self._framed: tuple[int, ...] = ()  # positions of a decision's slots
        self._first_slot = 1  # the question number of the first slot
        self._has_legend = True
        self._cell_width = self._glyphs.cell_width([])
        self._geometry = self._came_from = self._lay_out(PREFERRED_WIDTH)
        self._glide = QVariantAnimation(
            self, duration=FADE_MS, easingCurve=QEasingCurve(QEasingCurve.Type.OutCubic), startValue=0.0, endValue=1.0
        )  # moves cells to their new positions
        self._glide.valueChanged.connect(self.update)
        grow_with_width(self, QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.setAccessibleName(tr("Canvas"))
        self._describe()

    def set_piece(self, piece: Callable[[int], str], special: Callable[[int], bool] | None = None) -> None:
        """Sets the functions that give a token's text and whether it is a control token.

        Without ``special`` a control token is recognised by its text.
        """
        self._piece, self._glyph, self._is_other_run = piece, _glyphs_of(piece, special), True
        self._ends = () if self.block is None else line_ends(self.block, piece)
        self._widen(afresh=True)

    def set_font(self, font: QFont) -> None:
        """Sets the typeface and size of the cells; ``font`` has a size in pixels."""
        self._glyphs = CellGlyphs(font)
        self._widen(afresh=True)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self.set_font(canvas_font())

    def set_calm(self, calm: bool) -> None:
        """Shows the best guess (calm) or the noise in the cells that are not accepted."""
        if calm != self._calm:
            self._calm = calm
            self._stop_fade()
            self._widen()
            self.update()

    def set_heat(self, heat: Heat | None) -> None:
        """Colours the cells by a figure; None shows only the states."""
        before, self._heat = self._heat, heat
        if before is heat or (heat is not None and heat.same_as(before)):
            return
        self._stop_fade()
        if (before is None) != (heat is None):
            self._relayout()
        self.update()

    def reserve(self, tokens: Iterable[int]) -> None:
        """Makes the cells wide enough for these tokens, so that they need not grow when the tokens are shown."""
        self._cell_width = self._glyphs.cell_width([self._glyph(token).text for token in tokens], self._cell_width)
        self._relayout()

    def set_legend(self, shown: bool) -> None:
        if shown != self._has_legend:
            self._has_legend = shown
            self._relayout()

    def frame_slots(self, slots: Sequence[int], first: int = 1) -> None:
        """Frames the positions at which a decision's questions are answered, numbered in order from ``first``."""
        self._first_slot = first
        if tuple(slots) != self._framed:
            self._framed = tuple(slots)
            self._relayout()
            self.update()

    def setColumns(self, columns: int | None) -> None:
        """Sets the number of cells in a row; None chooses it from the width."""
        if columns is not None and columns < 1:
            raise ValueError(f"columns must be at least 1, not {columns}")
        if columns != self._columns:
            self._columns = columns
            self._relayout()

    def set_block(self, block: BlockState | None) -> None:
        """Shows a block in its present state. Does nothing if nothing that is shown has changed."""
        before, self.block = self.block, copy.copy(block)
        now = self.block
        same = _same_canvas(before, now) and not self._is_other_run
        self._is_other_run = False  # blocks of masks begin alike in all runs
        later = same and before is not None and now is not None and now.step >= before.step
        if not later:
            self._stop_fade()
        if not same and before is not None and (now is None or now.length != before.length):
            self._select(-1)
            self._hover(-1)
        if before is None and now is None:
            return
        ends, grid = () if now is None else line_ends(now, self._piece), self._geometry
        has_moved, self._ends = ends != self._ends, ends
        if later and before is not None and now is not None:
            if not has_moved and not self._shows_other(before, now):
                return
            self._fade_changes(before, now)
        self._widen(afresh=not same)
        if later and has_moved and self._geometry.columns == grid.columns:
            self._glide_from(grid)
        self._describe()
        self.update()

    @property
    def grid(self) -> Geometry:
        return self._geometry

    def _shows_other(self, before: BlockState, now: BlockState) -> bool:
        if before.step != now.step or before.committed != now.committed:
            # The summary for assistive technology holds the step.
            return True
        if before.causal is not now.causal:
            return True
        return not (
            np.array_equal(before.tokens(calm=self._calm), now.tokens(calm=self._calm))
            and np.array_equal(before.states(calm=self._calm), now.states(calm=self._calm))
        )

    def _fade_changes(self, before: BlockState, now: BlockState) -> None:
        """Tints the cells that a step has accepted or taken back."""
        if not self._moves or self._heat is not None:
            return
        old, new = before.states(calm=self._calm), now.states(calm=self._calm)
        taken_back = new == CellState.TAKEN_BACK
        locked = (new == CellState.ACCEPTED) & ~np.isin(old, (CellState.ACCEPTED, CellState.SETTLED))
        changed = np.flatnonzero((taken_back & (old != CellState.TAKEN_BACK)) | locked)
        self._start_fade({int(index): CellState(int(new[index])) for index in changed})

    def _glide_from(self, grid: Geometry) -> None:
        """Animates the cells from their old positions to the new ones, after more line ends have become known."""
        if not self._moves or grid.count != self._geometry.count:
            return
        self._came_from = grid
        self._glide.stop()
        self._glide.start()

    def _update_cells(self, indices: Iterable[int]) -> None:
        bounds = self._geometry.bounds(indices)
        if bounds is not None:
            self.update(QRect(*bounds))

    def _widen(self, *, afresh: bool = False) -> None:
        """Fits the cells to the pieces shown. Within a block they only grow, so that the text does not jump about.

        ``afresh`` allows them to shrink.
        """
        texts: list[str] = []
        if self.block is not None:
            glyphs = [self._glyph(token) for token in set(self.block.tokens(calm=self._calm).tolist())]
            texts = [glyph.text for glyph in glyphs if glyph.kind == "text"]  # a sign is no wider than a letter
        self._cell_width = self._glyphs.cell_width(texts, 0 if afresh else self._cell_width)
        self._relayout()

    def _lay_out(self, width: int) -> Geometry:
        count = self.block.length if self.block is not None else 0
        return Geometry.from_width(
            width,
            count,
            self._cell_width,
            self._glyphs.cell_height(),
            columns=self._columns,
            ends=self._ends,
            least_rows=0 if count else EMPTY_ROWS,
            legend_widths=legend_widths(self._glyphs, self._legend()),
            legend_height=max(LEGEND_HEIGHT, self._glyphs.cell_height() - 4),  # the samples are as large as cells
            bar_height=px(BAR_HEIGHT) if self._heat is not None else 0,
        )

    def _relayout(self) -> None:
        new = self._lay_out(max(self.width(), 1))
        if new != self._geometry:  # the old one has its rectangles computed
            self._geometry = new
            self.updateGeometry()
            self.update()

    def legend_tip(self, point: QPoint) -> str:
        entries = zip(self._legend(), self._geometry.legend, strict=True)
        return next((tr(words.STATE_TIPS[entry]) for entry, rect in entries if QRect(*rect).contains(point)), "")

    def _legend(self) -> tuple[words.LegendKey, ...]:
        return legend_entries(self.block, self._framed) if self._has_legend else ()

    def _describe(self) -> None:
        text = words.of_block(self.block)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)

    def sizeHint(self) -> QSize:
        return QSize(PREFERRED_WIDTH, self.heightForWidth(PREFERRED_WIDTH))

    def minimumSizeHint(self) -> QSize:
        width = 2 * MARGIN + (self._columns or 4) * (self._cell_width + 2)
        return QSize(width, self._lay_out(max(self.width(), width)).height)

    def heightForWidth(self, width: int) -> int:
        return self._lay_out(width).height

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._relayout()

    def _paint(self, painter: QPainter, area: QRect) -> None:
        painter.fillRect(area, color(themes.current().surface_sunken))
        if self.block is None:
            self._paint_empty(painter)
        else:
            options = PaintOptions(
                calm=self._calm,
                selected=self._selected,
                hovered=self._hovered,
                focused=self.hasFocus(),
                tint=self._tint,
                tinted=self._tinted,
                heat=self._heat,
                slots=self._framed,
            )
            grid = self._geometry
            if self._glide.state() == QVariantAnimation.State.Running and self._came_from.count == grid.count:
                grid = grid.moving_from(self._came_from, float(self._glide.currentValue()))
            paint_block(painter, grid, self.block, themes.current(), self._glyphs, self._glyph, options, area)
        heat = self._heat
        bar = None if heat is None else (f"{heat.name}  {heat.low}".rstrip(), heat.high)
        paint_legend(painter, self._geometry, themes.current(), self._glyphs, self._legend(), bar)
        if is_ringed(self) and self._selected < 0:
            set_inks(painter, color(themes.current().focus), Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(1, 1, -2, -2))

    def _paint_empty(self, painter: QPainter) -> None:
        painter.setFont(ui_font())
        painter.setPen(color(themes.current().faint_ink))
        bottom = self._geometry.legend[0].y if self._geometry.legend else self.height()
        area = self.rect().adjusted(MARGIN, MARGIN, -MARGIN, 0)
        area.setBottom(bottom - MARGIN)
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, tr(EMPTY_TEXT))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        count = self._geometry.count
        moves = {
            Qt.Key.Key_Left: (-1, 0),
            Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Up: (0, -1),
            Qt.Key.Key_Down: (0, 1),
        }
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        key = Qt.Key(event.key())
        if count and plain and key in moves:
            self._select(self._geometry.moved(self._selected, *moves[key]) if self._selected >= 0 else 0)
        elif count and plain and key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._select(0 if key == Qt.Key.Key_Home else count - 1)
        elif plain and key == Qt.Key.Key_Escape and self._selected >= 0:
            self._select(-1)
        else:
            super().keyPressEvent(event)

    def cell_name(self, index: int) -> str:
        cell, text = self._cell(index)
        return words.of_cell(cell, text, *self._geometry.place_of(index))

    def cell_details(self, index: int) -> list[str]:
        lines = words.details(self._cell(index)[0])
        if index in self._framed:
            lines.insert(0, tr("Slot of question {number}", number=self._framed.index(index) + self._first_slot))
        if self._heat is not None and self._heat.words is not None and index < len(self._heat.shares):
            lines.append(self._heat.words(index))
        return lines

    def cell_text(self, index: int) -> list[str]:
        return [*words.heading(*self._cell(index), index), *self.cell_details(index)]

    def _cell(self, index: int) -> tuple[Cell, str]:
        """Returns a cell as shown, and its token's text."""
        if self.block is None:
            raise IndexError("the canvas is empty")
        cell = self.block.cell(index, self._calm)
        return cell, self._piece(cell.token)


def _glyphs_of(piece: Callable[[int], str], special: Callable[[int], bool] | None) -> Callable[[int], Glyph]:
    """Returns a function that gives a token's glyph, and remembers it."""
    return lru_cache(GLYPHS)(lambda token: glyph_of(piece(token), None if special is None else special(token)))


def _same_canvas(before: BlockState | None, now: BlockState | None) -> bool:
    """True if both are states of one block, so that cell width and selection can be kept."""
    if before is None or now is None:
        return before is now
    return before.block_index == now.block_index and before.length == now.length
