"""One lane of a race: its canvas, its text, its figures. Knows no engine and no clock."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.board.block_board import BlockBoard
from app.canvas.accessibility import expose_cells
from app.canvas.view import CanvasView
from app.design.controls import Elided, FlowLayout, button, label, scroller
from app.design.fonts import px
from app.design.text_field import fits
from app.race.one.figures import FigureRow
from app.state.race.running import LaneFigures
from app.state.run.canvas import BlockState
from app.state.sudoku.placing import placed, puzzle_in
from app.system.i18n import tr
from engine import Recording

TEXT_HEIGHT = 64  # pixels at 100 %
LEAST_CANVAS = 160


class LaneBoard(BlockBoard):
    """As large as there is room for, which it does not ask for."""

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()


class LaneCard(QFrame):
    """``show_*`` reflect a lane; what is asked of it is told with its place among the lanes."""

    inspect_asked = Signal(int)
    compare_asked = Signal(int)
    export_asked = Signal(int)

    def __init__(self, place: int, parent: QWidget | None = None) -> None:
        """``place`` is the lane's, from 0."""
        super().__init__(parent)
        self.setProperty("role", "panel")
        name = tr("Lane {number}", number=place + 1)
        self.setAccessibleName(name)
        self._trace: Recording | None = None
        self._is_puzzle = False  # what is asked
        self.title, self.facts = Elided("side"), Elided("caption")
        self.verdict = label("", "verdict")
        self.verdict.setAccessibleName(tr("{lane}: whether the answer is right", lane=name))
        self.canvas = CanvasView()
        self.canvas.setAccessibleName(tr("{lane}: canvas", lane=name))
        self.canvas.set_legend(False)
        expose_cells(self.canvas)
        self.area = scroller(self.canvas)
        self.area.setObjectName("canvas-scroll")
        self.area.setMinimumHeight(px(LEAST_CANVAS))
        self.board = LaneBoard()
        self.board.setAccessibleName(tr("{lane}: board", lane=name))
        self.board.hide()
        self.text = QPlainTextEdit()
        self.text.setProperty("role", "code")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(px(TEXT_HEIGHT))
        self.text.setAccessibleName(tr("{lane}: text", lane=name))
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.figures = FigureRow()
        self.figures.set_first(place == 0)
        self.problem = label("", "error", wrap=True, selectable=True)
        self.inspect = button(tr("Inspect"), tr("{lane}: open the run in the inspector", lane=name))
        self.compare = button(tr("Compare with lane 1"), tr("{lane}: compare the run with lane 1's", lane=name))
        self.export = button(tr("Export…"), tr("{lane}: export the run", lane=name))
        self.compare.setVisible(place > 0)
        self._lay_out()
        self.inspect.clicked.connect(lambda: self.inspect_asked.emit(place))
        self.compare.clicked.connect(lambda: self.compare_asked.emit(place))
        self.export.clicked.connect(lambda: self.export_asked.emit(place))
        self.show_problem("")
        self.show_reading("", None, None)
        self.allow(inspect=False, compare=False)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.title, 1)
        head.addWidget(self.verdict)
        links = QWidget()
        flow = FlowLayout(links, 16, 0)
        for link in (self.inspect, self.compare, self.export):
            flow.addWidget(link)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self.facts)
        column.addWidget(self.area, 1)
        column.addWidget(self.board, 1)
        column.addWidget(self.text)
        column.addWidget(self.figures)
        column.addWidget(self.problem)
        column.addWidget(links)

    def tab_stops(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        return [self.canvas, self.board, self.text, self.inspect, self.compare, self.export]

    # ---------------------------------------------------------------- what it shows

    def show_changes(self, changes: str) -> None:
        """Which settings of the lane are not its model's; empty where those of no lane are."""
        self.facts.set_whole(changes)
        self.facts.setVisible(bool(changes))

    def set_run(self, trace: Recording | None, columns: int | None = None) -> None:
        """Whose canvases come; None shows an empty one. ``columns`` cells a row, None as many as fit."""
        self._trace = trace
        self._is_puzzle = trace is not None and puzzle_in(trace.prompt) is not None
        self.canvas.setColumns(columns)
        self.show_frame(None, LaneFigures())
        if trace is not None:
            self.canvas.set_piece(trace.piece, trace.is_special)

    def show_frame(self, block: BlockState | None, figures: LaneFigures, last: BlockState | None = None) -> None:
        """A canvas of the run, and what the lane had written and spent then.

        Args:
            last: the block as it ended, where that is known: it tells whether a Sudoku is written.
        """
        trace, where = self._trace, None
        if self._is_puzzle and trace is not None and block is not None:
            where = placed(trace.prompt, last or block, trace.piece)
        if trace is not None:
            self.board.place(where, trace.piece)
        self.board.set_block(block)
        self.canvas.set_block(block)
        self.board.setVisible(where is not None)
        self.area.setVisible(where is None)
        self.figures.show_figures(figures)

    def show_reading(self, text: str, agreement: float | None, is_right: bool | None) -> None:
        """What the text reads as, how far it is the first lane's, and whether it is right, as far as that is known."""
        shown = text if fits(text) else tr("This text is too long to be shown here. Open the run in the inspector.")
        if shown != self.text.toPlainText():
            self.text.setPlainText(shown)
        self.figures.show_agreement(agreement)
        said = {None: "", True: tr("✓ right"), False: tr("✗ wrong")}
        self.verdict.setText(said[is_right])

    def show_problem(self, problem: str) -> None:
        """Why the run failed; empty where it did not."""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def allow(self, *, inspect: bool, compare: bool) -> None:
        """Whether there is a run to look into, and one to compare it with."""
        self.inspect.setEnabled(inspect)
        self.export.setEnabled(inspect)
        self.compare.setEnabled(compare)

    # ---------------------------------------------------------------- looks
