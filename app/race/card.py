"""One lane of a race, with canvas, text and figures, and the clock that replays the lanes of a finished race together.

The lanes took turns in the engine; here they play in parallel, each by its own seconds.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QSize, Qt, Signal, Slot
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
from app.system.timers import every
from engine import Recording

TICK_MS = 33  # between two frames while it plays
SHORTEST_SECONDS, LONGEST_SECONDS = 6.0, 30.0  # bounds of the time that a whole race plays


class RaceClock(QObject):
    """Holds a time within the race, and plays it. Without lanes it stays at 0."""

    moved = Signal()
    playing_changed = Signal(bool)

    def __init__(self, parent: QObject | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._now = now
        self._times: list[list[float]] = []  # seconds of each frame, by lane
        self.seconds = 0.0  # the current time, in the engine's seconds
        self._seen = 0.0  # time of the last tick, by ``now``
        self._timer = every(self, self._tick, TICK_MS)

    def open(self, times: Sequence[Sequence[float]]) -> None:
        """Sets the seconds of each lane's frames, and goes to the end."""
        self.pause()
        self._times = [list(one) for one in times]
        self.go(self.end)

    @property
    def end(self) -> float:
        """The total seconds of the slowest lane."""
        return max((one[-1] for one in self._times if one), default=0.0)

    @property
    def is_at_end(self) -> bool:
        return self.seconds >= self.end

    @property
    def rate(self) -> float:
        """Seconds of the engine for each second of playing."""
        return self.end / min(max(self.end, SHORTEST_SECONDS), LONGEST_SECONDS)

    def place(self, lane: int) -> int:
        """Returns the index of a lane's current frame; -1 if the lane has none."""
        times = self._times[lane]
        return max(0, bisect.bisect_right(times, self.seconds) - 1) if times else -1

    def go(self, seconds: float) -> None:
        """Goes to a time, clamped to the race."""
        self.seconds = max(0.0, min(seconds, self.end))
        self.moved.emit()

    def step(self, by: int) -> None:
        """Goes to the next time at which any lane has a new frame (1), or to the previous one (-1)."""
        self.pause()
        moments = sorted({one for times in self._times for one in times})
        if by > 0:
            place = bisect.bisect_right(moments, self.seconds)
            self.go(moments[place] if place < len(moments) else self.end)
        else:
            place = bisect.bisect_left(moments, self.seconds) - 1
            self.go(moments[place] if place >= 0 else 0.0)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @Slot()
    def toggle(self) -> None:
        """Plays or pauses; at the end it plays from the beginning."""
        if self.is_playing:
            self.pause()
        elif self.end > 0:
            if self.is_at_end:
                self.go(0.0)
            self._seen = self._now()
            self._timer.start()
            self.playing_changed.emit(True)

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.playing_changed.emit(False)

    @Slot()
    def _tick(self) -> None:
        now = self._now()
        passed, self._seen = now - self._seen, now
        self.go(self.seconds + passed * self.rate)
        if self.is_at_end:
            self.pause()


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
            cell = introduce(boxed(column_of(made, label(unit, "caption"), STRETCH, spacing=0)), tip=tip)
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
    def __init__(self, place: int) -> None:
        """``place`` is the lane's index."""
        super().__init__()
        name = tr("Lane {number}", number=place + 1)
        introduce(self, name, role="panel")
        self._trace: Recording | None = None
        self._is_puzzle = False  # the prompt is a Sudoku
        self.title = Elided("side")
        self.verdict = label("", "verdict", name=tr("{lane}: right or wrong", lane=name))
        self.canvas = introduce(CanvasView(), tr("{lane}: canvas", lane=name))
        self.canvas.set_legend(False)
        expose_cells(self.canvas)
        self.area = introduce(scroller(self.canvas), id="canvas-scroll")
        self.area.setMinimumHeight(px(LEAST_CANVAS))
        self.board = introduce(LaneBoard(), tr("{lane}: board", lane=name))
        self.board.hide()
        self.text = introduce(
            PlainText(
                readOnly=True,
                tabChangesFocus=True,
                textInteractionFlags=Qt.TextInteractionFlag.TextSelectableByMouse
                | Qt.TextInteractionFlag.TextSelectableByKeyboard,
            ),
            tr("{lane}: text", lane=name),
            role="code",
        )
        self.text.setFixedHeight(px(TEXT_HEIGHT))
        self.figures = FigureRow()
        self.problem = label("", "error", wrap=True, selectable=True)
        self.inspect = button(tr("Inspect"), tr("{lane}: open the run in the inspector", lane=name))
        self.compare = button(tr("Compare with lane 1"), tr("{lane}: compare the run with lane 1's", lane=name))
        self.export = button(tr("Export…"), tr("{lane}: export the run", lane=name))
        self._lay_out()
        self.compare.setVisible(place > 0)  # not before it has a parent: it would be a window of its own
        show_line(self.problem, "")
        self.allow(inspect=False, compare=False)

    def _lay_out(self) -> None:
        head = row_of((self.title, 1), self.verdict, spacing=8)
        links = flow_of(self.inspect, self.compare, self.export, gap=16, row_gap=0)
        shown = ((self.area, 1), (self.board, 1), self.text, self.figures, self.problem)
        self.setLayout(column_of(head, *shown, links, margins=(12, 8, 12, 8), spacing=6))

    def tab_stops(self) -> list[QWidget]:
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

    def allow(self, *, inspect: bool, compare: bool) -> None:
        """Enables Inspect and Export, and Compare."""
        self.inspect.setEnabled(inspect)
        self.export.setEnabled(inspect)
        self.compare.setEnabled(compare)
