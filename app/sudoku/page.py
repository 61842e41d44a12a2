"""The widget of the Sudoku page: one puzzle, two contenders side by side, the scoreboard. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QTabWidget, QWidget

from app.design.layouts import boxed, column_of
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.side_by_side import SideBySide
from app.sudoku.single import OnePuzzle
from app.system.i18n import tr


class SudokuPage(QWidget):
    """The tabs ``one``, ``side_by_side`` and ``scores``."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sudoku")
        self.setAccessibleName(tr("Sudoku"))
        self.one = OnePuzzle()
        self.side_by_side = SideBySide()
        self.scores = ScoreboardView()
        framed = boxed(column_of(self.scores, margins=(16, 12, 16, 12)))
        self._tabs = {"one": self.one, "beside": self.side_by_side, "scores": framed}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tr("Ways to solve"))
        self.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for title, part in (
            (tr("One puzzle"), self.one),
            (tr("Side by side"), self.side_by_side),
            (tr("Scoreboard"), framed),
        ):
            self.tabs.addTab(part, title)
        self.setLayout(column_of(self.tabs, margins=(0, 4, 0, 0)))
        self.setFocusProxy(self.one.board)
        self.one.column.clamp.toggled.connect(self.side_by_side.clamp.setChecked)
        self.side_by_side.clamp.toggled.connect(self.one.column.clamp.setChecked)

    @property
    def clamp(self) -> bool:
        """True if givens are to be clamped."""
        return self.one.column.clamp.isChecked()

    def show_part(self, part: str) -> None:
        """Switches to the tab ``"one"``, ``"beside"`` (side by side) or ``"scores"``."""
        self.tabs.setCurrentWidget(self._tabs[part])

    def set_pace(self, pace: str) -> None:
        """Sets the pace at which runs are played, a value of the pace setting."""
        for part in (self.one, self.side_by_side):
            part.scrub.set_pace(pace)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
