"""The widget of the Sudoku page: one puzzle, two contenders side by side, the scoreboard. Knows no model."""

from __future__ import annotations

from app.design.layouts import boxed, column_of
from app.design.tabbed_page import TabbedPage
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.side_by_side import SideBySide
from app.sudoku.single import OnePuzzle
from app.system.i18n import tr


class SudokuPage(TabbedPage):
    """The tabs ``one``, ``beside`` (side by side) and ``scores``."""

    def __init__(self) -> None:
        super().__init__("sudoku", tr("Sudoku"), tr("Ways to solve"))
        self.one, self.side_by_side, self.scores = OnePuzzle(), SideBySide(), ScoreboardView()
        self.add_part("one", tr("One puzzle"), self.one)
        self.add_part("beside", tr("Side by side"), self.side_by_side)
        self.add_part("scores", tr("Scoreboard"), boxed(column_of(self.scores, margins=(16, 12, 16, 12))))
        self.setLayout(column_of(self.tabs, margins=(0, 4, 0, 0)))
        self.setFocusProxy(self.one.board)
        self.one.column.clamp.toggled.connect(self.side_by_side.clamp.setChecked)
        self.side_by_side.clamp.toggled.connect(self.one.column.clamp.setChecked)

    @property
    def clamp(self) -> bool:
        """True if givens are to be clamped."""
        return self.one.column.clamp.isChecked()

    def set_pace(self, pace: str) -> None:
        """Sets the pace at which runs are played, a value of the pace setting."""
        for part in (self.one, self.side_by_side):
            part.scrub.set_pace(pace)
