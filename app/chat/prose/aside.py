"""Has slow jobs done in another process, which is ended where one takes too long, and keeps what came of them.

The GUI thread never waits: what is not known yet is told by ``Aside.done`` later. Works where Qt's event loop runs.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import OrderedDict, deque
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal, Slot

from app.chat.prose import slow
from app.chat.prose.highlight import may_be_read
from app.chat.prose.slow import FormulaRequest, Job, Result
from app.chat.prose.typeset import DrawnFormula, may_be_drawn

SECONDS = 2 * slow.PATIENCE  # for a job, after which a process is ended that has not ended itself
START_SECONDS = 30.0
"""The longest that the process may take until it is ready."""
MOST_SENT = 4  # jobs at a time; of those that wait, the latest is sent first
MOST_STARTS = 2  # in vain, after which nothing is tried any more
IDLE_SECONDS = 60.0  # after which the process is let go
MOST_KEPT = 32_000_000  # bytes of results and of what they were asked for
OPTION = "--prose-slow"
"""Makes the bundled program this process."""


class Aside(QObject):
    """``ask`` for a job's result; ``done`` says for which jobs it is known now."""

    done = Signal(object)  # a set of jobs

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[Job, Result | None] = OrderedDict()
        self._kept = 0
        self._waiting: list[Job] = []  # what was asked for last is looked at now; what was before may be closed
        self._sent: deque[Job] = deque()  # in the order of their answers
        self._pending: set[Job] = set()
        self._process: QProcess | None = None
        self._ready = False
        self._vain = 0  # starts in a row that came to nothing
        self.starts = 0
        self._alarm = QTimer(self)
        self._alarm.setSingleShot(True)
        self._alarm.timeout.connect(self._late)
        self._told: set[Job] = set()  # known, and not yet said
        self._tell = QTimer(self)
        self._tell.setSingleShot(True)
        self._tell.timeout.connect(self._say)

    @property
    def is_idle(self) -> bool:
        """Whether every job's result is known and told."""
        return not self._pending and not self._told

    def ask(self, job: Job) -> Result | None:
        """What came of a job; None as long as that is not known, and where nothing can come of it."""
        if job in self._known:
            self._known.move_to_end(job)
            return self._known[job]
        if job not in self._pending and _is_worth_it(job):
            if self._vain >= MOST_STARTS:
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

    def is_pending(self, job: Job) -> bool:
        """Whether ``done`` will still tell of a job."""
        return job in self._pending

    def close(self) -> None:
        """End the process; what was asked for stays undone."""
        self._waiting.clear()
        self._sent.clear()
        self._pending.clear()
        self._alarm.stop()
        process, self._process = self._process, None
        if process is not None:
            for signal, slot in (
                (process.readyReadStandardOutput, self._read),
                (process.finished, self._ended),
                (process.errorOccurred, self._failed),
            ):
                signal.disconnect(slot)
            process.kill()
            process.waitForFinished(5_000)
            process.deleteLater()

    # ---------------------------------------------------------------- the process

    def _start(self) -> None:
        self.starts += 1
        self._ready = False
        self._process = process = QProcess(self)
        process.setStandardErrorFile(QProcess.nullDevice())
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._ended)
        process.errorOccurred.connect(self._failed)
        arguments = [OPTION]
        if not getattr(sys, "frozen", False):  # -P: nothing is imported from the folder that one happens to be in
            arguments = ["-P", "-m", slow.__name__]
            environment = QProcessEnvironment.systemEnvironment()
            root = str(Path(__file__).resolve().parents[3])
            paths = [root, *filter(None, [environment.value("PYTHONPATH")])]
            environment.insert("PYTHONPATH", os.pathsep.join(paths))
            process.setProcessEnvironment(environment)
        self._alarm.start(round(START_SECONDS * 1000))
        process.start(sys.executable, arguments)

    def _send(self) -> None:
        assert self._process is not None
        while self._waiting and len(self._sent) < MOST_SENT:
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
        """A job, the start or idleness has lasted too long."""
        process = self._process
        if process is None:
            return
        if process.waitForReadyRead(0):  # it was we who were late; what came has been read
            if not self._alarm.isActive():
                self._alarm.start(round(SECONDS * 1000))
        elif self._sent or not self._ready:
            process.kill()
        else:
            self.close()  # nobody needed it for long

    @Slot()
    def _ended(self) -> None:
        """The job that it ended with cannot be done; the next ones get another process."""
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
        if self._vain >= MOST_STARTS:
            while self._waiting:
                self._keep(self._waiting.pop(), None)
        elif self._waiting:
            self._start()

    @Slot(QProcess.ProcessError)
    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # ``finished`` does not follow
            self._ended()

    # ---------------------------------------------------------------- results

    def _keep(self, job: Job, result: Result | None) -> None:
        self._known[job] = result
        self._kept += _size(job, result)
        while self._kept > MOST_KEPT and len(self._known) > 1:
            self._kept -= _size(*self._known.popitem(last=False))
        self._pending.discard(job)
        self._told.add(job)
        if not self._tell.isActive():
            self._tell.start(0)

    @Slot()
    def _say(self) -> None:
        told, self._told = self._told, set()
        self.done.emit(told)


def _is_worth_it(job: Job) -> bool:
    return may_be_drawn(job.source) if isinstance(job, FormulaRequest) else may_be_read(job.text, job.language)


def _size(job: Job, result: Result | None) -> int:
    asked = len(job.source if isinstance(job, FormulaRequest) else job.text)
    return 500 + asked + (len(result.svg) if isinstance(result, DrawnFormula) else 150 * len(result or ()))


_made: list[Aside] = []


def aside() -> Aside:
    """The process's one; it ends before Qt does."""
    if not _made:
        _made.append(Aside())
        atexit.register(_made[0].close)
    return _made[0]
