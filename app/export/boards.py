"""Draws the blocks of a run that are Sudokus as boards, with the app's board painter. Knows no file."""

from __future__ import annotations

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter

from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs
from app.board.legend import running_entries
from app.board.paint import BoardPaintOptions, paint_board
from app.canvas.legend import LegendEntry
from app.design.tokens import Theme
from app.export.run import board_in
from app.state.run.replay import Replay
from app.state.sudoku.placing import Placed
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.system.i18n import tr, trn
from engine import Recording

CELL = 54  # pixels; nine of the first are as wide as the narrowest picture


class Boards:
    """The boards of a run. Without ``prompt`` no cell is marked as given, and there is no verdict."""

    def __init__(self, run: Recording, replay: Replay, *, prompt: bool) -> None:
        self._run, self._replay, self._prompt = run, replay, prompt
        self._found: dict[int, Placed | None] = {}
        self._glyphs = BoardGlyphs()
        self._geometry = BoardGeometry(0, 0, CELL)

    @property
    def side(self) -> int:
        """Side of a board in pixels."""
        return self._geometry.side

    @property
    def entries(self) -> list[LegendEntry]:
        """The legend of a board's marks."""
        return running_entries(self._glyphs)

    def find(self, block: int) -> Placed | None:
        """Returns the place of the Sudoku in a block; None if it has none."""
        if block not in self._found:
            self._found[block] = board_in(self._run, self._replay.record(block), prompt=self._prompt)
        return self._found[block]

    def frame(self, place: int) -> SolveFrame | None:
        """Returns the board's state at a frame; None if the block is not a Sudoku."""
        block = self._replay.snapshot(place)
        found = self.find(block.block_index)
        return None if found is None else frame(found.puzzle, block, self._run.piece, found.positions)

    def caption(self, shown: SolveFrame) -> list[str]:
        """Returns the parts of a board's caption after its step."""
        if shown.verdict is not None:
            steps = trn("{count} step", "{count} steps", shown.steps)
            return [steps, shown.verdict.text] if self._prompt else [tr("finished"), steps]
        words = [tr("accepted {accepted} of {length}", accepted=shown.accepted, length=len(shown.cells))]
        if shown.entropy is not None:
            words.append(tr("mean entropy {entropy} nats", entropy=f"{shown.entropy:.3f}"))
        return words

    def paint(self, painter: QPainter, shown: SolveFrame, at: QPointF, theme: Theme) -> None:
        """Paints a board with its top left corner at a point."""
        painter.save()
        painter.translate(at)
        paint_board(painter, self._geometry, shown, theme, self._glyphs, BoardPaintOptions())
        painter.restore()
