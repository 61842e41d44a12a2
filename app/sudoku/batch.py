"""Runs the scoreboard's batch of puzzles, each made while the one before runs."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from app.batch.runner import Ahead
from app.state.sudoku.scores import Request, Result, Task
from app.sudoku.contenders import Contender
from app.sudoku.job_queue import JobQueue, PuzzleJob, was_stopped
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.words import RunCost
from app.system.i18n import tr
from engine import Recording
from engine.tasks import sudoku


class PuzzleBatch(QObject):
    """Runs one batch at a time, as the ``Follower`` of its jobs. ``changed``: a batch began or ended."""

    changed = Signal()

    def __init__(self, queue: JobQueue, view: ScoreboardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue, self._view = queue, view
        self.puzzles = Ahead[Task](self, self._offer, self._end)
        self.is_on = False
        self._task: Task | None = None
        self._title = ""
        self._contender: Contender | None = None
        self._seed = 0

    def begin(self, request: Request, title: str, contender: Contender | None = None) -> None:
        """Starts a batch.

        Args:
            title: The name in the results.
            contender: Solves the puzzles; None for the loaded model.
        """
        self._title, self._contender, self._seed = title, contender, request.seed
        self.is_on = True
        self.puzzles.begin(request.tasks())
        self._view.begin(request, (title,))
        self.changed.emit()

    def stop(self) -> None:
        """Ends the batch. The caller stops the queue, and with it the running puzzle."""
        if self.is_on:
            self._end(tr("Stopped."))

    @Slot(str)
    def _end(self, message: str = "") -> None:
        self.is_on, self._task = False, None
        self.puzzles.drop()
        self._view.ended(message)
        self.changed.emit()

    @Slot()
    def _offer(self) -> None:
        """Runs the next puzzle once it is made."""
        if self._task is not None or not self.puzzles.is_ready:
            return
        self._task = self.puzzles.take()
        if self._task is None:
            self._end()
            return
        job = PuzzleJob(self._contender, self._task.puzzle, self._seed, follower=self, keep=False, is_watched=False)
        self._queue.add([job])

    def began(self, view: Recording) -> None:
        """Does nothing: a run is read when it has ended."""

    def grew(self, share: float) -> None:
        """Does nothing, as ``began``."""

    def ended(self, view: Recording | None, problem: str) -> None:
        task, self._task = self._task, None
        if task is None or not self.is_on:
            return
        if problem or view is None or was_stopped(view):
            self._end(problem or tr("Stopped."))
            return
        cost = RunCost.from_trace(view)
        answer = sudoku.read_answer(view.text)
        self._view.add(Result(task.puzzle, answer, task.solution, cost.steps, cost.seconds, self._title))
        self._offer()
