"""The Sudoku page: one puzzle, two contenders side by side, the scoreboard. Knows no model and no window."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from app.sudoku.scores.view import ScoreboardView
from app.sudoku.side_by_side import Beside
from app.sudoku.single import OnePuzzle
from app.system.i18n import tr


class SudokuPage(QWidget):
    """``one``, ``beside`` and ``scores`` are its parts, each a tab."""

    pace_chosen = Signal(str)  # a value of the declared setting

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sudoku")
        self.setAccessibleName(tr("Sudoku"))
        self.one = OnePuzzle()
        self.beside = Beside()
        self.scores = ScoreboardView()
        framed = QWidget()
        around = QVBoxLayout(framed)
        around.setContentsMargins(16, 12, 16, 12)
        around.addWidget(self.scores)
        self._tabs = {"one": self.one, "beside": self.beside, "scores": framed}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tr("Ways to solve"))
        self.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for title, part in (
            (tr("One puzzle"), self.one),
            (tr("Side by side"), self.beside),
            (tr("Scoreboard"), framed),
        ):
            self.tabs.addTab(part, title)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.addWidget(self.tabs)
        self.setFocusProxy(self.one.board)
        self.one.scrub.pace_chosen.connect(self.pace_chosen)
        self.beside.scrub.pace_chosen.connect(self.pace_chosen)
        self.one.column.clamp.toggled.connect(self.beside.clamp.setChecked)
        self.beside.clamp.toggled.connect(self.one.column.clamp.setChecked)

    @property
    def clamp(self) -> bool:
        """Whether givens are to be clamped."""
        return self.one.column.clamp.isChecked()

    def show_part(self, part: str) -> None:
        """Bring "one", "beside" or "scores" to the front."""
        self.tabs.setCurrentWidget(self._tabs[part])

    def set_pace(self, pace: str) -> None:
        """Play runs at a value of the declared setting."""
        for part in (self.one, self.beside):
            part.scrub.set_pace(pace)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
