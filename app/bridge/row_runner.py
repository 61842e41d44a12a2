"""Decides the rows of a table through the scheduler, several at once, without blocking the window. Knows no widgets.

A thread makes the requests, and replies are folded in the scheduler's thread. The window polls the finished rows, so
that many short runs do not slow it down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.bridge.mailbox import Mailbox
from app.state.decisions.board import RowOutcome
from app.state.decisions.reading import DecisionReading
from engine import SafelightError
from engine.service import RunRequest, Scheduler, ServiceReply
from engine.tasks.decisions.table import TableState

LOOK_MS = 200  # between two polls for finished rows
AT_ONCE = 8  # rows decided at the same time
ENDING_SECONDS = 10.0

MakeRequests = Callable[[TableState], tuple[RunRequest, ...]]
"""Returns the runs that decide a state; raises SafelightError."""


class RowRunner(QObject):
    """Decides one table at a time. Must be closed before it is destroyed."""

    arrived = Signal(object)  # list[RowOutcome]
    ended = Signal()  # after the last ``arrived``

    def __init__(self, scheduler: Scheduler, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._scheduler = scheduler
        self._work: _Work | None = None
        self._look = QTimer(self)
        self._look.setInterval(LOOK_MS)
        self._look.timeout.connect(self._deliver)

    @property
    def is_on(self) -> bool:
        return self._work is not None

    def begin(self, rows: Sequence[int], states: Sequence[TableState], make: MakeRequests) -> None:
        """Starts deciding these rows; ``states`` are those of the whole table. ``make`` is called in another thread."""
        self._work = _Work(self._scheduler, rows, states, make)
        self._work.thread.start()
        self._look.start()

    @Slot()
    def stop(self) -> None:
        """Starts no more rows, and stops the running ones within one denoising step."""
        if self._work is not None:
            self._work.stop()

    def close(self) -> None:
        """Stops, and waits for the thread."""
        self._look.stop()
        work, self._work = self._work, None
        if work is not None:
            work.stop()
            work.thread.join(ENDING_SECONDS)

    @Slot()
    def _deliver(self) -> None:
        work = self._work
        if work is None:
            return
        is_over = not work.thread.is_alive()  # read before the last drain, so that no outcome is missed
        found = work.done.drain()
        if is_over:
            self._look.stop()
            self._work = None
        if found:
            self.arrived.emit(found)
        if is_over:
            self.ended.emit()


class _Work:
    """Rows to decide, and the thread that requests them; it ends when all rows are over."""

    def __init__(
        self, scheduler: Scheduler, rows: Sequence[int], states: Sequence[TableState], make: MakeRequests
    ) -> None:
        self.done: Mailbox[RowOutcome] = Mailbox()
        self._scheduler, self._rows, self._states, self._make = scheduler, rows, states, make
        self._room = threading.Semaphore(AT_ONCE)
        self._is_stopped = threading.Event()
        self._running: set[_Row] = set()
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._ask, name="safelight-rows", daemon=True)

    def stop(self) -> None:
        self._is_stopped.set()
        self._scheduler.stop(*(request for row in self._left() for request in row.requests))
        self._room.release()  # wakes the thread if it waits

    def _ask(self) -> None:
        for index in self._rows:
            self._room.acquire()
            if self._is_stopped.is_set():
                break
            try:
                requests = self._make(self._states[index])
            except SafelightError as error:
                self.done.put(RowOutcome(index, problem=str(error)))
                self._room.release()
                continue
            row = _Row(index, requests, self._end)
            with self._lock:
                self._running.add(row)
            for request in requests:
                self._scheduler.run(request, row)
            if self._is_stopped.is_set():  # stopped since the check above
                self._scheduler.stop(*requests)
        for row in self._left():
            row.is_over.wait(ENDING_SECONDS if self._is_stopped.is_set() else None)

    def _left(self) -> list[_Row]:
        with self._lock:
            return list(self._running)

    def _end(self, row: _Row) -> None:
        outcome = row.outcome()
        if outcome is not None:
            self.done.put(outcome)
        with self._lock:
            self._running.discard(row)
        self._room.release()


class _Row:
    """A row that is being decided, as the client that receives its replies."""

    is_full = False

    def __init__(self, index: int, requests: tuple[RunRequest, ...], ended: Callable[[_Row], None]) -> None:
        self._index, self.requests, self._ended = index, requests, ended
        self._reading = DecisionReading.from_requests(requests)
        self.is_over = threading.Event()

    def put(self, reply: ServiceReply) -> None:
        """Applies a reply; called in the scheduler's thread."""
        self._reading.take(reply)
        if self._reading.is_over and not self.is_over.is_set():
            self._ended(self)
            self.is_over.set()

    def outcome(self) -> RowOutcome | None:
        """Returns the row's outcome; None if the row was stopped before it was read."""
        reading = self._reading
        problem, _ = reading.problem
        if problem:
            return RowOutcome(self._index, problem=problem)
        if reading.was_stopped:
            return None
        return RowOutcome(self._index, tuple(reading.reads_of(question) for question in range(reading.count)))
