"""A board that follows a run through a player: live, and afterwards wherever one scrubs to. Knows no window."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.player.player import Player
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.sudoku.board.view import BoardView
from app.sudoku.words import Spent, result_text
from engine import Recording

REFRESH_MS = 30  # between two looks at a run under way


class RunBoard(QObject):
    """A ``Follower`` of ``app.sudoku.job_queue``. ``shown`` tells that another frame, or none, is on the board."""

    shown = Signal()
    started = Signal()
    finished = Signal(str)  # why it failed; empty if it did not

    def __init__(self, board: BoardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.board = board
        self.player = Player(self)
        self.puzzle = ""  # of the run on show
        self.run_view: Recording | None = None
        self.is_live = False
        self.result = ""  # how the run on show went, in words; empty until it has ended
        self._share = 1.0  # of the latest step
        self._waiting = QTimer(self)
        self._waiting.setSingleShot(True)
        self._waiting.timeout.connect(self._take_in)
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)

    @property
    def frame(self) -> SolveFrame | None:
        """What the board shows of the run; None where it shows none."""
        return self.board.frame

    @property
    def trace(self) -> Recording | None:
        """The run on show, whole; None where there is none."""
        return self.run_view

    @property
    def spent(self) -> Spent | None:
        """What the run on show has taken so far."""
        return None if self.run_view is None else Spent.of(self.run_view)

    @property
    def is_at_end(self) -> bool:
        """Whether the last frame is on show, to which the verdict belongs."""
        replay = self.player.replay
        return replay is not None and self.player.place >= len(replay.frames) - 1

    # ---------------------------------------------------------------- a run

    def expect(self, puzzle: str) -> None:
        """A run on this puzzle was asked for; until it is there the board shows the puzzle alone."""
        self._let_go()
        self.puzzle = puzzle
        self.is_live = True

    def began(self, view: Recording) -> None:
        self.run_view = view
        self.player.open(view)
        self.started.emit()

    def grew(self, share: float) -> None:
        self._share = share
        if not self._waiting.isActive():
            self._waiting.start(REFRESH_MS)

    def ended(self, _view: Recording | None, problem: str) -> None:
        self._waiting.stop()
        self._share = 1.0
        self._take_in()
        self.is_live = False
        replay = self.player.replay
        if self.run_view is not None and replay is not None and replay.frames:
            last = frame(self.puzzle, replay.snapshot(len(replay.frames) - 1), self.run_view.piece)
            self.result = result_text(last, Spent.of(self.run_view), problem)
        else:
            self.result = problem
        self.finished.emit(problem)

    def close(self) -> None:
        """Show no run any more, and the puzzle again."""
        self._let_go()
        self.is_live = False
        self.shown.emit()

    def _let_go(self) -> None:
        self._waiting.stop()
        self.run_view, self.result = None, ""
        self.player.open(None)
        self.board.set_frame(None)

    @Slot()
    def _take_in(self) -> None:
        if self.run_view is not None:
            self.player.refresh(self._share)

    # ---------------------------------------------------------------- showing

    @Slot()
    def _show(self) -> None:
        shown = self.player.shown
        if shown is None or self.run_view is None:
            return
        self.board.set_frame(frame(self.puzzle, shown, self.run_view.piece))
        self.shown.emit()
