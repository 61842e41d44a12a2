"""Long work off the GUI thread: heavy jobs one after another, light ones in parallel to them. Knows no model.

A download may take hours, and a memory estimate must not wait for it; a search of the disk must not wait for estimates,
which import torch; a hub may be slow: hence four threads. Each starts with its first job. A job is a function of a
``Control``; its result or exception is emitted in a ``JobEnded``.
A job may block in a call that cannot be stopped, such as a keyring asking for a password. So the threads are Python
daemon threads, which do not keep the process alive; a ``QThread`` would.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal, get_args

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.system.i18n import tr
from engine import SafelightError
from engine.errors import spoken

JobKind = Literal["download", "convert", "delete", "plan", "token", "probe", "look", "find", "search", "closer"]
HEAVY: tuple[JobKind, ...] = ("download", "convert")
LaneName = Literal["heavy", "light", "search", "hub"]
Phase = Literal["queued", "running", "pausing", "cancelling"]
STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries
REPORT_SECONDS = 0.1  # between two progress signals of a job
CLOSING_SECONDS = 5.0  # to wait for running jobs; a conversion checks its flag between layers


@dataclass(frozen=True)
class JobProgress:
    """A job's progress; amounts are bytes, 0 if unknown."""

    key: str
    kind: JobKind
    share: float
    done_bytes: int = 0
    total_bytes: int = 0
    bytes_per_second: float = 0.0
    stage: str = ""
    file: tuple[str, int, int] = ("", 0, 0)  # the one that is worked on, the bytes of it that are done, and all


@dataclass(frozen=True, eq=False)
class Control:
    """Lets a job's function report progress and check whether it should stop."""

    key: str
    kind: JobKind
    emit: Callable[[JobProgress], None]
    pause: threading.Event = field(default_factory=threading.Event)
    cancel: threading.Event = field(default_factory=threading.Event)
    _last_report: list[float] = field(default_factory=lambda: [0.0])

    def is_set(self) -> bool:
        """Returns True if it should stop; named so that this object can be passed as a cancel flag."""
        return self.pause.is_set() or self.cancel.is_set()

    def report(
        self,
        share: float,
        done: int = 0,
        total: int = 0,
        speed: float = 0.0,
        stage: str = "",
        file: tuple[str, int, int] = ("", 0, 0),
        *,
        now: bool = False,
    ) -> None:
        """Reports progress, at most about ten times a second; ``now`` overrides this limit."""
        if now or time.monotonic() - self._last_report[0] >= REPORT_SECONDS:
            self._last_report[0] = time.monotonic()
            self.emit(JobProgress(self.key, self.kind, share, done, total, speed, stage, file))


@dataclass(frozen=True, eq=False)
class ModelJob:
    """``work`` is run in a thread; ``key`` identifies what it works on.

    ``then`` takes the ``JobEnded``; without it, ``Jobs.ended`` emits that.
    """

    key: str
    kind: JobKind
    work: Callable[[Control], object]
    then: Callable[[JobEnded], object] | None = None


@dataclass(frozen=True, eq=False)
class JobEnded:
    """The result or failure of a job. ``details`` holds the traceback of an unexpected failure."""

    key: str
    kind: JobKind
    result: object = None
    failure: Exception | None = None
    details: str = ""
    stopped: bool = False  # the job was paused or cancelled


class _Lane(QObject):
    """Runs queued jobs one after another in a thread of its own, which also emits its signals."""

    progressed = Signal(object)
    ended = Signal(object)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.is_left = False  # abandoned: the thread still runs, but emits nothing
        self.queue: SimpleQueue[tuple[ModelJob, Control] | None] = SimpleQueue()
        self.worker = threading.Thread(target=self._work, name=name, daemon=True)
        before = threading.stack_size(STACK_BYTES)
        self.worker.start()
        threading.stack_size(before)

    def _work(self) -> None:
        while (entry := self.queue.get()) is not None:
            ended = _done(*entry)
            if not self.is_left:
                self.ended.emit(ended)

    def report(self, progress: JobProgress) -> None:
        """Emits a job's progress; called in the thread."""
        if not self.is_left:
            self.progressed.emit(progress)


_left_behind: list[_Lane] = []  # kept alive, as their threads still use them


def _done(job: ModelJob, control: Control) -> JobEnded:
    """Runs a job; an exception becomes part of the result."""
    try:
        return JobEnded(job.key, job.kind, job.work(control), stopped=control.is_set())
    except SafelightError as error:
        return JobEnded(job.key, job.kind, failure=error, stopped=control.is_set())
    except Exception as error:  # the app must survive whatever the libraries raise
        failure = SafelightError(tr("Something went wrong: {text}", text=spoken(error)))
        return JobEnded(job.key, job.kind, None, failure, traceback.format_exc(), control.is_set())


class Jobs(QObject):
    """Starts, queues and stops jobs. Must be shut down before it is destroyed."""

    changed = Signal(str)  # a job of this key was queued, begun or asked to stop
    progressed = Signal(object)  # JobProgress
    ended = Signal(object)  # JobEnded of a job without ``then``

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lanes: dict[LaneName, _Lane] = {}
        self._queues: dict[LaneName, deque[ModelJob]] = {name: deque() for name in get_args(LaneName)}
        self._running: dict[LaneName, tuple[ModelJob, Control]] = {}
        self._closed = False

    def submit(self, job: ModelJob) -> bool:
        """Queues a job; returns False if one of its kind and key is already queued or running."""
        if self._closed or self.phase(job.key, job.kind) is not None:
            return False
        lane = _lane_of(job.kind)
        self._queues[lane].append(job)
        self._next(lane)
        if job in self._queues[lane]:
            self.changed.emit(job.key)
        return True

    def phase(self, key: str, kind: JobKind) -> Phase | None:
        """Returns a job's phase; None if there is no such job."""
        lane = _lane_of(kind)
        running, control = self._running.get(lane, (None, None))
        if running is not None and control is not None and (running.key, running.kind) == (key, kind):
            return "cancelling" if control.cancel.is_set() else "pausing" if control.pause.is_set() else "running"
        queued = any((job.key, job.kind) == (key, kind) for job in self._queues[lane])
        return "queued" if queued else None

    def heavy_of(self, key: str) -> tuple[JobKind, Phase] | None:
        """Returns the heavy job of a key."""
        for kind in HEAVY:
            if (phase := self.phase(key, kind)) is not None:
                return kind, phase
        return None

    @property
    def heavy_keys(self) -> tuple[str, ...]:
        """Returns the keys of the heavy jobs, the running one first."""
        running = (self._running["heavy"][0].key,) if "heavy" in self._running else ()
        return (*running, *(job.key for job in self._queues["heavy"]))

    def pause(self, key: str) -> None:
        """Stops a heavy job, keeping its files; a queued one is removed from the queue."""
        self._stop(key, HEAVY, cancel=False)

    def cancel(self, key: str, *kinds: JobKind) -> None:
        """Stops a job of these kinds, of a lane, or else a heavy one, deleting its files; a queued one is removed."""
        self._stop(key, kinds or HEAVY, cancel=True)

    def _stop(self, key: str, kinds: tuple[JobKind, ...], *, cancel: bool) -> None:
        lane = _lane_of(kinds[0])
        for job in [job for job in self._queues[lane] if job.key == key and job.kind in kinds]:
            self._queues[lane].remove(job)
            self._report(job, JobEnded(job.key, job.kind, stopped=True))
        running, control = self._running.get(lane, (None, None))
        if running is not None and control is not None and running.key == key and running.kind in kinds:
            (control.cancel if cancel else control.pause).set()
        self.changed.emit(key)

    @property
    def is_alive(self) -> bool:
        return any(lane.worker.is_alive() for lane in self._lanes.values())

    def shutdown(self) -> None:
        """Pauses running jobs, drops queued ones and ends the threads. A thread that does not end in time is abandoned.
        May be called again."""
        self._closed = True
        for queue in self._queues.values():
            queue.clear()
        for _, control in self._running.values():
            control.pause.set()
        for lane in self._lanes.values():
            lane.queue.put(None)
        ends = time.monotonic() + CLOSING_SECONDS
        for lane in self._lanes.values():
            lane.worker.join(max(0.0, ends - time.monotonic()))
            if lane.worker.is_alive():
                lane.is_left = True
                _left_behind.append(lane)

    def _next(self, name: LaneName) -> None:
        if name in self._running or not self._queues[name]:
            return
        job = self._queues[name].popleft()
        lane = self._lane(name)
        control = Control(job.key, job.kind, lane.report)
        self._running[name] = (job, control)
        lane.queue.put((job, control))
        self.changed.emit(job.key)

    def _lane(self, name: LaneName) -> _Lane:
        if name not in self._lanes:
            lane = _Lane(f"safelight-{name}-jobs")
            lane.progressed.connect(self._progressed, Qt.ConnectionType.QueuedConnection)
            lane.ended.connect(self._ended, Qt.ConnectionType.QueuedConnection)
            self._lanes[name] = lane
        return self._lanes[name]

    @Slot(object)
    def _progressed(self, progress: JobProgress) -> None:
        if not self._closed:
            self.progressed.emit(progress)

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        lane = _lane_of(ended.kind)
        job, _ = self._running.pop(lane)
        if self._closed:
            return
        self._report(job, ended)
        self._next(lane)

    def _report(self, job: ModelJob, ended: JobEnded) -> None:
        (job.then or self.ended.emit)(ended)


def _lane_of(kind: JobKind) -> LaneName:
    others: dict[JobKind, LaneName] = {"find": "search", "search": "hub", "closer": "hub"}
    return "heavy" if kind in HEAVY else others.get(kind, "light")
