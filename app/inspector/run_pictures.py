"""Pictures of runs for their cards: the most informative frame, painted as in the inspector.

Runs are read in a thread. Each card is painted when it becomes visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs
from app.board.paint import BoardPaintOptions, paint_board
from app.canvas.geometry import Geometry
from app.canvas.glyphs import CellGlyphs, Glyph, glyph_of
from app.canvas.paint import PaintOptions, paint_block
from app.design import themes
from app.design.fonts import TEXT_CANVAS, canvas_font, px
from app.design.tokens import color, set_inks
from app.state.run.canvas import BlockState
from app.state.run.lines import line_ends
from app.state.run.replay import BlockRecord, Replay
from app.state.sudoku.placing import placed
from app.state.sudoku.solve_frame import SolveFrame, frame
from engine import SafelightError, open_trace

HEIGHT = 150  # pixels at 100 %
SMALLER = 0.75  # scale of the cells relative to a canvas


@dataclass(frozen=True, eq=False)
class RunPicture:
    """The painted part of a run: a canvas with its tokens' glyphs, and the board if it is a Sudoku."""

    block: BlockState
    glyphs: dict[int, Glyph]
    ends: tuple[int, ...]  # positions after which a line ends
    board: SolveFrame | None
    slots: tuple[int, ...] = ()  # positions of a decision's slots


def picture_of(path: Path) -> RunPicture | None:
    """Returns the picture of the run in a file; None if the run has no blocks.

    Raises:
        SafelightError: the file cannot be read.
    """
    trace = open_trace(path)
    replay = Replay(trace)
    if not replay.blocks:
        return None
    record = replay.record(0)
    block = record.snapshots[_best_frame(record)]
    grid = placed(trace.prompt, record.snapshots[-1], trace.piece)
    return RunPicture(
        block=block,
        glyphs={
            token: glyph_of(trace.piece(token), trace.is_special(token))
            for token in np.unique(block.tokens(calm=True)).tolist()
        },
        ends=line_ends(block, trace.piece),
        slots=tuple(slot.position for slot in trace.header.slots),
        board=None if grid is None else frame(grid.puzzle, block, trace.piece, grid.positions),
    )


def _best_frame(record: BlockRecord) -> int:
    """Returns the index of the most informative snapshot.

    That is the beginning of the last round, else the step that takes most back, which is the first if there are none.
    """
    if record.rounds:
        return min(record.rounds[-1].step + 1, len(record.snapshots) - 1)
    counts = record.taken_back_counts
    return min(1 + int(counts.argmax()) if len(counts) else 0, len(record.snapshots) - 1)


def pictures_of(paths: Sequence[Path]) -> dict[str, RunPicture]:
    """Returns the pictures of runs by their path. One that cannot be read has none; opening it shows why."""
    pictures = {}
    for path in paths:
        with contextlib.suppress(SafelightError):
            picture = picture_of(path)
            if picture is not None:
                pictures[str(path)] = picture
    return pictures


class PictureView(QWidget):
    """A run's picture on a card; blank lines until the picture is set."""

    def __init__(self) -> None:
        super().__init__()
        self.picture: RunPicture | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        return QSize(px(200), px(HEIGHT))

    def set_picture(self, picture: RunPicture | None) -> None:
        self.picture = picture
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.fillRect(self.rect(), color(themes.current().surface_sunken))
            if self.picture is not None and self.picture.board is not None:
                self._paint_board(painter, self.picture.board)
            elif self.picture is not None:
                self._paint_canvas(painter, self.picture)
            else:
                self._paint_blank(painter)

    def _paint_blank(self, painter: QPainter) -> None:
        set_inks(painter, Qt.PenStyle.NoPen, color(themes.current().line))
        for row, share in enumerate((0.8, 0.6, 0.7)):
            painter.drawRoundedRect(px(16), px(20 + 28 * row), round(share * self.width()) - px(32), px(10), 4, 4)

    def _paint_board(self, painter: QPainter, shown: SolveFrame) -> None:
        if self.height() <= px(12):  # not laid out yet
            return
        geometry = BoardGeometry(0, 0, 2 * self.height() // 9)  # twice the size, scaled down for finer lines
        share = (self.height() - px(12)) / geometry.side
        painter.translate((self.width() - share * geometry.side) / 2, px(6))
        painter.scale(share, share)
        paint_board(painter, geometry, shown, themes.current(), BoardGlyphs(), BoardPaintOptions())

    def _paint_canvas(self, painter: QPainter, picture: RunPicture) -> None:
        painter.scale(SMALLER, SMALLER)
        width, height = round(self.width() / SMALLER), round(self.height() / SMALLER)
        glyphs = CellGlyphs(canvas_font(TEXT_CANVAS))
        cell = glyphs.cell_width([glyph.text for glyph in picture.glyphs.values()]), glyphs.cell_height()
        geometry = Geometry.from_width(width, picture.block.length, *cell, ends=picture.ends)
        look, clip = PaintOptions(calm=True, slots=picture.slots), QRect(0, 0, width, height)
        paint_block(painter, geometry, picture.block, themes.current(), glyphs, picture.glyphs.__getitem__, look, clip)
