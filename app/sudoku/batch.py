"""Runs the scoreboard's batch of puzzles, each made while the one before runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.state.sudoku.scores import Request, Result, Task
from app.sudoku.contenders import Contender
from app.sudoku.job_queue import JobQueue, PuzzleJob, was_stopped
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.words import RunCost
from app.system.i18n import tr
from engine import Recording
from engine.tasks import sudoku

POLL_MS = 10  # between two checks whether the next puzzle is made


class Ahead:
    """Takes items from an iterator, each made in a thread while the one before is used."""

    def __init__(self, items: Iterator[Task]) -> None:
        self._items = items
        self._thread: threading.Thread | None = None
        self._made: Task | None = None
        self._is_over = False
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._make, name="safelight-puzzles", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        self._made = next(self._items, None)
        self._is_over = self._made is None

    @property
    def is_ready(self) -> bool:
        """True if ``take`` returns at once."""
        return self._thread is None or not self._thread.is_alive()

    def take(self) -> Task | None:
        """Returns the next item, and waits until it is made; None after the last one."""
        if self._thread is not None:
            self._thread.join()
        made = self._made
        if not self._is_over:
            self._begin()
        return made


class PuzzleBatch(QObject):
    """Runs one batch at a time, as the ``Follower`` of its jobs. ``changed``: a batch began or ended."""

    changed = Signal()

    def __init__(self, queue: JobQueue, view: ScoreboardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue, self._view = queue, view
        self.puzzles: Ahead | None = None  # the remaining puzzles; None while no batch is running
        self._task: Task | None = None
        self._title = ""
        self._contender: Contender | None = None
        self._seed = 0
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MS)
        self._poll.timeout.connect(self._offer)

    @property
    def is_on(self) -> bool:
        """True while a batch is running."""
        return self.puzzles is not None

    def begin(self, request: Request, title: str, contender: Contender | None = None) -> None:
        """Starts a batch.

        Args:
            title: The name in the results.
            contender: Solves the puzzles; None for the loaded model.
        """
        self._title, self._contender, self._seed = title, contender, request.seed
        self.puzzles = Ahead(request.tasks())
        self._view.begin(request, (title,))
        self.changed.emit()
        self._poll.start()

    def stop(self) -> None:
        """Ends the batch. The caller stops the queue, and with it the running puzzle."""
        if self.is_on:
            self._end(tr("Stopped."))

    def _end(self, message: str = "") -> None:
        self.puzzles, self._task = None, None
        self._poll.stop()
        self._view.ended(message)
        self.changed.emit()

    @Slot()
    def _offer(self) -> None:
        """Runs the next puzzle once it is made."""
        if self.puzzles is None or self._task is not None or not self.puzzles.is_ready:
            return
        self._task = self.puzzles.take()
        if self._task is None:
            self._end()
            return
        job = PuzzleJob(self._contender, self._task.puzzle, self._seed, follower=self, keep=False, is_watched=False)
        self._queue.add([job])

    # ---------------------------------------------------------------- Follower

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
