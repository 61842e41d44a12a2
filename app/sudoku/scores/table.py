"""The scoreboard's table."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.design.figure_table import FigureTable
from app.state.sudoku.scores import ALL, ScoreRow
from app.sudoku.scores.words import cells_of, heads
from app.system.i18n import tr


class ScoreTable(FigureTable):
    """A row for each bin and contender."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Scores"))

    def show_rows(self, rows: list[ScoreRow]) -> None:
        """Shows rows, with a column of contenders if there are several."""
        named = len({row.contender for row in rows}) > 1
        sums = {place for place, row in enumerate(rows) if row.bin == ALL}
        shown = [cells_of(row, named=named) for row in rows]
        self.show_figures(heads(named=named), shown, names=1 + named, sums=sums)
