"""Runs slow jobs in another process, which is killed if a job takes too long, and caches their results.

The GUI thread never waits: results are announced by ``SideProcess.done``. Needs a running Qt event loop.
"""

from __future__ import annotations

import atexit
from collections import OrderedDict, deque
from functools import cache

from PySide6.QtCore import QObject, QProcess, Signal, Slot

from app.chat.markdown_view import slow
from app.chat.markdown_view.slow import DrawnFormula, FormulaRequest, Job, Result, may_be_drawn, may_be_read
from app.system.child import start_module
from app.system.timers import later

SECONDS = 2 * slow.PATIENCE  # per job; after that a process that has not ended itself is killed
START_SECONDS = 30.0
"""Longest time until the process must be ready."""
MAX_SENT = 4  # jobs in the process at a time; of the waiting ones, the latest is sent first
MAX_STARTS = 2  # failed starts in a row, after which no more are tried
IDLE_SECONDS = 60.0  # idle time after which the process is ended
MAX_KEPT_BYTES = 32_000_000  # bytes of cached results and their jobs
OPTION = "--prose-slow"
"""Command-line option with which the bundled program runs as this process."""


class SideProcess(QObject):
    """The client of the process: ``ask`` returns a job's result if known; ``done`` announces new results."""

    done = Signal(object)  # a set of jobs

    def __init__(self) -> None:
        super().__init__()
        self._known: OrderedDict[Job, Result | None] = OrderedDict()
        self._kept = 0
        self._waiting: list[Job] = []  # the last one asked for is done first: it is the most likely to be visible
        self._sent: deque[Job] = deque()  # in the order in which they will be answered
        self._pending: set[Job] = set()
        self._process: QProcess | None = None
        self._ready = False
        self._vain = 0  # failed starts in a row
        self.starts = 0
        self._alarm = later(self, self._late)
        self._unannounced: set[Job] = set()  # known, but not yet in ``done``
        self._announcing = later(self, self._announce)

    def ask(self, job: Job) -> Result | None:
        """Returns the result of a job; None while it is unknown, and if the job failed."""
        if job in self._known:
            self._known.move_to_end(job)
            return self._known[job]
        if job not in self._pending and _is_worth_it(job):
            if self._vain >= MAX_STARTS:
                return None
            self._pending.add(job)
            self._waiting.append(job)
            if self._process is None:
                self._start()
            elif self._ready:
                if not self._sent:
                    self._alarm.start(round(SECONDS * 1000))
                self._send()
        return None

    @property
    def is_idle(self) -> bool:
        """True if the results of all jobs are known and announced."""
        return not self._pending and not self._unannounced

    def is_pending(self, job: Job) -> bool:
        return job in self._pending

    def close(self) -> None:
        """Ends the process and drops pending jobs."""
        self._waiting.clear()
        self._sent.clear()
        self._pending.clear()
        self._alarm.stop()
        process, self._process = self._process, None
        if process is not None:
            process.blockSignals(True)
            process.kill()
            process.waitForFinished(5_000)
            process.deleteLater()

    def _start(self) -> None:
        self.starts += 1
        self._ready = False
        self._process = process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._ended)
        process.errorOccurred.connect(self._failed)
        self._alarm.start(round(START_SECONDS * 1000))
        start_module(process, slow.__name__, OPTION)

    def _send(self) -> None:
        assert self._process is not None
        while self._waiting and len(self._sent) < MAX_SENT:
            self._sent.append(self._waiting.pop())
            self._process.write(slow.written(self._sent[-1]))

    @Slot()
    def _read(self) -> None:
        process = self._process
        while process is not None and process.canReadLine():
            line = bytes(process.readLine().data())
            if not self._ready:
                self._ready, self._vain = True, 0
            elif self._sent:
                try:
                    result = slow.read(line)
                except (ValueError, KeyError, TypeError):
                    result = None
                self._keep(self._sent.popleft(), result)
            self._send()
            self._alarm.start(round((SECONDS if self._sent else IDLE_SECONDS) * 1000))

    @Slot()
    def _late(self) -> None:
        """Handles the timeout of a job or of the start, or the end of the idle time."""
        process = self._process
        if process is None:
            return
        if process.waitForReadyRead(0):  # the answer was there, but this event loop was late; it has been read now
            if not self._alarm.isActive():
                self._alarm.start(round(SECONDS * 1000))
        elif self._sent or not self._ready:
            process.kill()
        else:
            self.close()  # idle for long

    @Slot()
    def _ended(self) -> None:
        """Marks the job on which the process ended as failed; starts another process for the next ones."""
        process, self._process = self._process, None
        self._alarm.stop()
        if process is not None:
            process.deleteLater()
        if self._sent:
            self._keep(self._sent.popleft(), None)
        elif self._waiting and not self._ready:
            self._vain += 1
        while self._sent:
            self._waiting.append(self._sent.pop())
        if self._vain >= MAX_STARTS:
            while self._waiting:
                self._keep(self._waiting.pop(), None)
        elif self._waiting:
            self._start()

    @Slot(QProcess.ProcessError)
    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # ``finished`` does not follow
            self._ended()

    def _keep(self, job: Job, result: Result | None) -> None:
        self._known[job] = result
        self._kept += _size(job, result)
        while self._kept > MAX_KEPT_BYTES and len(self._known) > 1:
            self._kept -= _size(*self._known.popitem(last=False))
        self._pending.discard(job)
        self._unannounced.add(job)
        self._announcing.start()

    @Slot()
    def _announce(self) -> None:
        jobs, self._unannounced = self._unannounced, set()
        self.done.emit(jobs)


def _is_worth_it(job: Job) -> bool:
    return may_be_drawn(job.source) if isinstance(job, FormulaRequest) else may_be_read(job.text, job.language)


def _size(job: Job, result: Result | None) -> int:
    asked = len(job.source if isinstance(job, FormulaRequest) else job.text)
    return 500 + asked + (len(result.svg) if isinstance(result, DrawnFormula) else 150 * len(result or ()))


@cache
def side_process() -> SideProcess:
    """Returns the application's only ``SideProcess``; it is closed before Qt ends."""
    process = SideProcess()
    atexit.register(process.close)
    return process
