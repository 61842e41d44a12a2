"""Work that takes long, off the GUI thread: heavy jobs one after another, light ones beside them. Knows no model.

A download may take hours, and a count of memory must not wait for it: hence two threads. Both begin with their first
job. What a job does is a function that gets a ``Control``; what it returns or raises comes back as ``JobEnded``.
A job may hang in what cannot be stopped, such as a keyring that asks for a password. So the threads are Python's own
daemons, which do not keep the process alive; a ``QThread`` would.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal, Slot

from engine import SafelightError

JobKind = Literal["download", "convert", "verify", "delete", "plan", "token"]
HEAVY: tuple[JobKind, ...] = ("download", "convert", "verify")
Phase = Literal["queued", "running", "pausing", "cancelling"]
STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries
REPORT_SECONDS = 0.1  # between two signals of one job
CLOSING_SECONDS = 5.0  # for what runs to stop; a conversion looks at its flag between two layers


@dataclass(frozen=True)
class JobProgress:
    """Where a job stands; the amounts are bytes, and 0 where they are not known."""

    key: str
    kind: JobKind
    share: float
    done_bytes: int = 0
    total_bytes: int = 0
    bytes_per_second: float = 0.0
    stage: str = ""


@dataclass(frozen=True, eq=False)
class Control:
    """What a job's function reports through and looks at."""

    key: str
    kind: JobKind
    emit: Callable[[JobProgress], None]
    pause: threading.Event = field(default_factory=threading.Event)
    cancel: threading.Event = field(default_factory=threading.Event)
    _told: list[float] = field(default_factory=lambda: [0.0])

    @property
    def stopped(self) -> bool:
        return self.pause.is_set() or self.cancel.is_set()

    def is_set(self) -> bool:
        """So that it can stand for a cancel flag that either of the two sets."""
        return self.stopped

    def tell(
        self, share: float, done: int = 0, total: int = 0, speed: float = 0.0, stage: str = "", *, now: bool = False
    ) -> None:
        """Report, about ten times a second at most; ``now`` reports in any case."""
        if now or time.monotonic() - self._told[0] >= REPORT_SECONDS:
            self._told[0] = time.monotonic()
            self.emit(JobProgress(self.key, self.kind, share, done, total, speed, stage))


@dataclass(frozen=True, eq=False)
class ModelJob:
    """``work`` is run in a thread; ``key`` says what it is about."""

    key: str
    kind: JobKind
    work: Callable[[Control], object]


@dataclass(frozen=True, eq=False)
class JobEnded:
    """A job's result, or what went wrong. ``details`` holds the traceback where the failure was not foreseen."""

    key: str
    kind: JobKind
    result: object = None
    failure: Exception | None = None
    details: str = ""
    stopped: bool = False  # it was paused or cancelled


class _Lane(QObject):
    """Runs what it is given, one job after another, in a thread of its own, which its signals come from."""

    progressed = Signal(object)
    ended = Signal(object)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.is_left = False  # nobody listens any more, though the thread goes on
        self.asked: SimpleQueue[tuple[ModelJob, Control] | None] = SimpleQueue()
        self.worker = threading.Thread(target=self._work, name=name, daemon=True)
        before = threading.stack_size(STACK_BYTES)
        self.worker.start()
        threading.stack_size(before)

    def _work(self) -> None:
        while (asked := self.asked.get()) is not None:
            ended = _done(*asked)
            if not self.is_left:
                self.ended.emit(ended)

    def tell(self, progress: JobProgress) -> None:
        """Pass on where a job stands; called in the thread."""
        if not self.is_left:
            self.progressed.emit(progress)


_left_behind: list[_Lane] = []  # kept, as their threads still look at them


def _done(job: ModelJob, control: Control) -> JobEnded:
    """Do a job; whatever it raises comes back."""
    try:
        return JobEnded(job.key, job.kind, job.work(control), stopped=control.stopped)
    except SafelightError as error:
        return JobEnded(job.key, job.kind, failure=error, stopped=control.stopped)
    except Exception as error:  # the app must go on, whatever the libraries below raise
        words = " ".join(str(error).split())[:200] or type(error).__name__
        failure = SafelightError(f"Something went wrong: {words}")
        return JobEnded(job.key, job.kind, None, failure, traceback.format_exc(), control.stopped)


class Jobs(QObject):
    """Starts, queues and stops jobs. Must be shut down before it is destroyed."""

    changed = Signal(str)  # a job about this key was queued, begun or asked to stop
    progressed = Signal(object)  # JobProgress
    ended = Signal(object)  # JobEnded

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lanes: dict[bool, _Lane] = {}  # by whether it is the heavy one
        self._queues: dict[bool, deque[ModelJob]] = {True: deque(), False: deque()}
        self._running: dict[bool, tuple[ModelJob, Control]] = {}
        self._closed = False

    def submit(self, job: ModelJob) -> bool:
        """Do a job, once those before it are done; False where one of its kind is there for its key already."""
        if self._closed or self.phase(job.key, job.kind) is not None:
            return False
        heavy = job.kind in HEAVY
        self._queues[heavy].append(job)
        self._next(heavy)
        if job in self._queues[heavy]:
            self.changed.emit(job.key)
        return True

    def phase(self, key: str, kind: JobKind) -> Phase | None:
        """How far a job is; None where there is none."""
        heavy = kind in HEAVY
        running, control = self._running.get(heavy, (None, None))
        if running is not None and control is not None and (running.key, running.kind) == (key, kind):
            return "cancelling" if control.cancel.is_set() else "pausing" if control.pause.is_set() else "running"
        queued = any((job.key, job.kind) == (key, kind) for job in self._queues[heavy])
        return "queued" if queued else None

    def heavy_of(self, key: str) -> tuple[JobKind, Phase] | None:
        """The heavy job about a key."""
        for kind in HEAVY:
            if (phase := self.phase(key, kind)) is not None:
                return kind, phase
        return None

    @property
    def heavy_keys(self) -> tuple[str, ...]:
        """What heavy jobs are about, the running one first."""
        running = (self._running[True][0].key,) if True in self._running else ()
        return (*running, *(job.key for job in self._queues[True]))

    def pause(self, key: str) -> None:
        """Let a heavy job stop and keep what it has; a queued one leaves the queue."""
        self._stop(key, cancel=False)

    def cancel(self, key: str) -> None:
        """Let a heavy job stop and remove what it has; a queued one leaves the queue."""
        self._stop(key, cancel=True)

    def _stop(self, key: str, *, cancel: bool) -> None:
        queue = self._queues[True]
        for job in [job for job in queue if job.key == key]:
            queue.remove(job)
            self.ended.emit(JobEnded(job.key, job.kind, stopped=True))
        running = self._running.get(True)
        if running is not None and running[0].key == key:
            control = running[1]
            (control.cancel if cancel else control.pause).set()
        self.changed.emit(key)

    @property
    def is_alive(self) -> bool:
        """Whether a thread runs."""
        return any(lane.worker.is_alive() for lane in self._lanes.values())

    def shutdown(self) -> None:
        """Pause what runs, drop what waits, and end the threads; one that does not end in time is left behind. May be
        called again."""
        self._closed = True
        for queue in self._queues.values():
            queue.clear()
        for _, control in self._running.values():
            control.pause.set()
        for lane in self._lanes.values():
            lane.asked.put(None)
        ends = time.monotonic() + CLOSING_SECONDS
        for lane in self._lanes.values():
            lane.worker.join(max(0.0, ends - time.monotonic()))
            if lane.worker.is_alive():
                lane.is_left = True
                _left_behind.append(lane)

    # ---------------------------------------------------------------- threads

    def _next(self, heavy: bool) -> None:
        if heavy in self._running or not self._queues[heavy]:
            return
        job = self._queues[heavy].popleft()
        lane = self._lane(heavy)
        control = Control(job.key, job.kind, lane.tell)
        self._running[heavy] = (job, control)
        lane.asked.put((job, control))
        self.changed.emit(job.key)

    def _lane(self, heavy: bool) -> _Lane:
        if heavy not in self._lanes:
            lane = _Lane("safelight-heavy-jobs" if heavy else "safelight-light-jobs")
            lane.progressed.connect(self._progressed, Qt.ConnectionType.QueuedConnection)
            lane.ended.connect(self._ended, Qt.ConnectionType.QueuedConnection)
            self._lanes[heavy] = lane
        return self._lanes[heavy]

    @Slot(object)
    def _progressed(self, progress: JobProgress) -> None:
        if not self._closed:
            self.progressed.emit(progress)

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        heavy = ended.kind in HEAVY
        self._running.pop(heavy, None)
        if self._closed:
            return
        self.ended.emit(ended)
        self._next(heavy)
