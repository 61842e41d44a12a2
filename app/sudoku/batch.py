"""The scoreboard's runs: puzzle after puzzle for the loaded model, each made while the one before runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.state.sudoku.scores import Request, Result, Task
from app.sudoku.contenders import Contender
from app.sudoku.job_queue import JobQueue, PuzzleJob, was_stopped
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.words import Spent
from app.system.i18n import tr
from engine import Recording
from engine.tasks import sudoku

POLL_MS = 10  # between two looks whether the next puzzle is made


class Ahead:
    """The items of an iterator, each made in a thread of its own while the one before is used."""

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
        """Whether ``take`` need not wait."""
        return self._thread is None or not self._thread.is_alive()

    def take(self) -> Task | None:
        """The next item, waited for; None after the last."""
        if self._thread is not None:
            self._thread.join()
        made = self._made
        if not self._is_over:
            self._begin()
        return made


class PuzzleBatch(QObject):
    """A ``Follower`` of ``app.sudoku.job_queue``. ``changed`` tells that it began or ended."""

    changed = Signal()

    def __init__(self, queue: JobQueue, view: ScoreboardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue, self._view = queue, view
        self.puzzles: Ahead | None = None  # those to come, while a batch is on
        self._task: Task | None = None
        self._title = ""
        self._contender: Contender | None = None
        self._seed = 0
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MS)
        self._poll.timeout.connect(self._offer)

    @property
    def is_on(self) -> bool:
        """Whether puzzles are left to run."""
        return self.puzzles is not None

    def begin(self, request: Request, title: str, contender: Contender | None = None) -> None:
        """Run all puzzles of a request with a contender, or with the model as it is; ``title`` is how it is called."""
        self._title, self._contender, self._seed = title, contender, request.seed
        self.puzzles = Ahead(request.tasks())
        self._view.begin(request, (title,))
        self.changed.emit()
        self._poll.start()

    def stop(self) -> None:
        """Leave out what has not begun; the puzzle under way is stopped by whoever holds the queue."""
        if self.is_on:
            self._end(tr("Stopped."))

    def _end(self, message: str = "") -> None:
        self.puzzles, self._task = None, None
        self._poll.stop()
        self._view.ended(message)
        self.changed.emit()

    @Slot()
    def _offer(self) -> None:
        """Run the next puzzle once it is made."""
        if self.puzzles is None or self._task is not None or not self.puzzles.is_ready:
            return
        self._task = self.puzzles.take()
        if self._task is None:
            self._end()
            return
        job = PuzzleJob(self._contender, self._task.puzzle, self._seed, follower=self, keep=False, is_watched=False)
        self._queue.add([job])

    # ---------------------------------------------------------------- following

    def began(self, view: Recording) -> None:
        """It is looked at when it is over."""

    def grew(self, share: float) -> None:
        """As above."""

    def ended(self, view: Recording | None, problem: str) -> None:
        task, self._task = self._task, None
        if task is None or not self.is_on:
            return
        if problem or view is None or was_stopped(view):
            self._end(problem or tr("Stopped."))
            return
        spent = Spent.of(view)
        answer = sudoku.read_answer(view.text)
        self._view.add(Result(task.puzzle, answer, task.solution, spent.steps, spent.seconds, self._title))
        self._offer()
