"""One lane of a race: its canvas, its text, its figures. Knows no engine and no clock."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QWidget

from app.board.view import BlockBoard
from app.canvas.accessibility import expose_cells
from app.canvas.view import CanvasView
from app.design.controls import Elided, button, flow_of, introduce, label, scroller, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.text_field import PlainText, fits
from app.state.intervals import percent
from app.state.race.running import LaneFigures
from app.state.run.canvas import BlockState
from app.state.sudoku.placing import placed, puzzle_in
from app.system.i18n import tr
from engine import Recording

UNKNOWN = "–"
TEXT_HEIGHT = 64  # pixels at 100 %
LEAST_CANVAS = 160
LEAST_BOARD = 200


class FigureRow(QWidget):
    """Tokens, passes, tokens per pass, seconds, and the agreement with the first lane's text, each above its unit."""

    def __init__(self) -> None:
        super().__init__()
        units = {
            tr("tokens"): tr("Tokens written so far; in an unfinished block, those that are accepted"),
            tr("passes"): tr("Passes after the prompt, with those that only commit text"),
            tr("tokens\nper pass"): tr("Tokens of the text, divided by the passes"),
            tr("seconds"): tr("This lane's own time, without reading the prompt"),
            tr("same as\nlane 1"): tr("Share of the characters that lane 1 has in the same order"),
        }
        self.cells = [label(UNKNOWN, "figure") for _ in units]
        row = row_of(spacing=8)
        for made, (unit, tip) in zip(self.cells, units.items(), strict=True):
            introduce(made, " ".join(unit.split()), tip)
            cell = boxed(column_of(made, label(unit, "caption"), STRETCH, spacing=0))
            cell.setToolTip(tip)
            row.addWidget(cell, 1)
        self.setLayout(row)

    def show_figures(self, figures: LaneFigures) -> None:
        """Shows the lane's tokens, passes, tokens per pass and seconds."""
        per = figures.tokens_per_forward
        ratio = UNKNOWN if per is None else f"{per:.2f}"
        said = (f"{figures.tokens:,}", f"{figures.forwards:,}", ratio, f"{figures.seconds:.3f}")
        for cell, text in zip(self.cells, said, strict=False):
            if text != cell.text():
                cell.setText(text)


class LaneBoard(BlockBoard):
    """A board that fills its space but asks for no more than its minimum."""

    def minimumSizeHint(self) -> QSize:
        return QSize(px(LEAST_BOARD), px(LEAST_BOARD))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()


class LaneCard(QFrame):
    """A card for one lane."""

    def __init__(self, place: int) -> None:
        """``place`` is the lane's index."""
        super().__init__()
        self.setProperty("role", "panel")
        name = tr("Lane {number}", number=place + 1)
        self.setAccessibleName(name)
        self._trace: Recording | None = None
        self._is_puzzle = False  # the prompt is a Sudoku
        self.title = Elided("side")
        self.verdict = label("", "verdict", name=tr("{lane}: right or wrong", lane=name))
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
        self.text = PlainText()
        self.text.setProperty("role", "code")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(px(TEXT_HEIGHT))
        self.text.setAccessibleName(tr("{lane}: text", lane=name))
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.figures = FigureRow()
        self.problem = label("", "error", wrap=True, selectable=True)
        self.inspect = button(tr("Inspect"), tr("{lane}: open the run in the inspector", lane=name))
        self.compare = button(tr("Compare with lane 1"), tr("{lane}: compare the run with lane 1's", lane=name))
        self.export = button(tr("Export…"), tr("{lane}: export the run", lane=name))
        self._lay_out()
        self.compare.setVisible(place > 0)  # not before it has a parent: it would be a window of its own
        self.show_problem("")
        self.allow(inspect=False, compare=False)

    def _lay_out(self) -> None:
        head = row_of((self.title, 1), self.verdict, spacing=8)
        links = flow_of(self.inspect, self.compare, self.export, gap=16, row_gap=0)
        shown = ((self.area, 1), (self.board, 1), self.text, self.figures, self.problem)
        self.setLayout(column_of(head, *shown, links, margins=(12, 8, 12, 8), spacing=6))

    def tab_stops(self) -> list[QWidget]:
        """Returns the widgets of the Tab order."""
        return [self.canvas, self.board, self.text, self.inspect, self.compare, self.export]

    def set_run(self, trace: Recording | None, columns: int | None = None) -> None:
        """Sets the run whose canvases are shown; None shows an empty canvas.

        Args:
            columns: Cells in a row of the canvas; None for as many as fit.
        """
        self._trace = trace
        self._is_puzzle = trace is not None and puzzle_in(trace.prompt) is not None
        self.canvas.setColumns(columns)
        self.show_frame(None, LaneFigures())
        if trace is not None:
            self.canvas.set_piece(trace.piece, trace.is_special)

    def show_frame(self, block: BlockState | None, figures: LaneFigures, last: BlockState | None = None) -> None:
        """Shows a canvas of the run, and the lane's figures at that time.

        Args:
            last: The block's final state, if known: it decides whether the block holds a Sudoku.
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
        self.text.setVisible(where is None)  # the board shows all of it, and needs the room
        self.figures.show_figures(figures)

    def show_reading(self, text: str, agreement: float | None, is_right: bool | None) -> None:
        """Shows the lane's text, its agreement with the first lane's, and its verdict; None if not known."""
        shown = text if fits(text) else tr("This text is too long to be shown here. Open the run in the inspector.")
        self.text.setPlainText(shown)
        self.figures.cells[-1].setText(percent(agreement))
        said = {None: "", True: tr("✓ right"), False: tr("✗ wrong")}
        self.verdict.setText(said[is_right])

    def show_problem(self, problem: str) -> None:
        """Shows why the run failed; an empty text hides the line."""
        show_line(self.problem, problem)

    def allow(self, *, inspect: bool, compare: bool) -> None:
        """Enables Inspect and Export, and Compare."""
        self.inspect.setEnabled(inspect)
        self.export.setEnabled(inspect)
        self.compare.setEnabled(compare)
