"""Shows a run on a board through a player: live, and at any frame afterwards."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.pacing import RunHandle
from app.player.player import Player
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.sudoku.board.view import BoardView
from app.sudoku.words import RunCost, result_text
from app.system.timers import later
from engine import Recording

REFRESH_MS = 30  # between two updates of a running run


class RunBoard(QObject):
    """Shows one run at a time, from its beginning to its end. ``shown``: the board has another frame."""

    shown = Signal()
    started = Signal()
    finished = Signal(str)  # why it failed; empty if it did not

    def __init__(self, board: BoardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.board = board
        self.player = Player(self)
        self.puzzle = ""  # of the shown run
        self.trace: Recording | None = None
        self.is_live = False
        self.result = ""  # of the shown run, in words; empty until it has ended
        self.is_wrong = False  # the shown run has ended with an answer that does not solve the puzzle
        self._handle: RunHandle | None = None
        self._waiting = later(self, self._take_in)
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)

    @property
    def frame(self) -> SolveFrame | None:
        """The shown frame of the run; None if there is none."""
        return self.board.frame

    def expect(self, puzzle: str) -> None:
        """Prepares for a run on a puzzle that was requested; until it begins the board shows the puzzle."""
        self._reset()
        self.puzzle = puzzle
        self.is_live = True

    def follow(self, handle: RunHandle) -> None:
        """Shows what comes of a run; ``end`` must be called at its end."""
        self._handle = handle
        handle.started.connect(self._began)
        handle.changed.connect(self._grow)
        handle.revealed.connect(self._grow)

    @Slot(object)
    def _began(self, view: Recording) -> None:
        self.trace = view
        self.player.open(view)
        self.started.emit()

    @Slot()
    def _grow(self) -> None:
        if not self._waiting.isActive():
            self._waiting.start(REFRESH_MS)

    def end(self, problem: str) -> None:
        """Shows all of the run, or why it failed; empty if it did not."""
        self._waiting.stop()
        self._take_in()
        self.is_live = False
        replay = self.player.replay
        if self.trace is not None and replay is not None and replay.frames:
            last = frame(self.puzzle, replay.snapshot(len(replay.frames) - 1), self.trace.piece)
            cost = RunCost.from_trace(self.trace)
            self.result = result_text(last, cost, problem)
            judged = last.verdict
            self.is_wrong = judged is not None and not judged.valid and not (problem or cost.is_stopped)
        else:
            self.result = problem
        self.finished.emit(problem)

    def close(self) -> None:
        """Removes the run, and shows the puzzle again."""
        self._reset()
        self.is_live = False
        self.shown.emit()

    def _reset(self) -> None:
        self._waiting.stop()
        self.trace, self.result, self.is_wrong = None, "", False
        self.player.open(None)
        self.board.set_frame(None)

    @Slot()
    def _take_in(self) -> None:
        if self.trace is not None:
            self.player.refresh(1.0 if self._handle is None else self._handle.share)

    @Slot()
    def _show(self) -> None:
        shown = self.player.shown
        if shown is None or self.trace is None:
            return
        self.board.set_frame(frame(self.puzzle, shown, self.trace.piece))
        self.shown.emit()
