"""Connects the window to the engine: each request is answered with a handle, to which its replies come
when they are due.

The frames of a run follow each other at a readable pace: those that arrive too early are held. The engine does not wait
for them, and a late frame is delivered at once. Text that is written from left to right is not held: people read it as
it comes. Knows no widgets.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.state.run.canvas import Tokens
from app.state.run.pace import FULL_SPEED, Schedule, SpeedClock
from app.system import logs
from app.system.i18n import tr
from app.system.timers import later
from engine import CanvasCommitted, CanvasStarted, Event, PrefixPinned, Recording, Reply, StepFinished, TraceHeader
from engine.pictures import Picture
from engine.service import (
    AdapterRequest,
    Backend,
    BackendRouter,
    BoardRequest,
    InfillRun,
    InfluenceRequest,
    LoadRequest,
    MemoryUsed,
    RaceEnded,
    RaceRequest,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunStarted,
    Scheduler,
    ServiceReply,
    TraceNotKept,
)
from engine.service.scheduler import Outlet
from engine.trace import Entry

REVEAL_MS = 33  # between two updates of a step that is shown in part


class RunView(Recording):
    """The first ``count`` events of a recording; after ``show_all`` all of them, including later ones.

    Events that a fork has copied from its source, those of the blocks before its change, are included from the start.
    Everything else, such as the reply, is that of the whole recording.
    """

    def __init__(self, trace: Recording) -> None:
        self.trace = trace
        self.path = trace.path
        self.count = _copied(trace)
        self._is_whole = False

    def advance(self) -> None:
        self.count += 1
        self.path = self.trace.path  # becomes None if writing the file fails during the run

    def coming(self, block: int) -> Tokens | None:
        """Returns the text (T,) of a block that is already committed but not shown yet; else None."""
        for place in range(self.count, len(self.trace.entries)):
            entry = self.trace.entries[place]
            if entry.kind == "commit" and entry.block == block:
                event = self.trace.event(place)
                return event.tokens[: event.text_length] if isinstance(event, CanvasCommitted) else None
        return None

    def show_all(self) -> None:
        """Shows all events, after the run is over."""
        self._is_whole = True

    @property
    def entries(self) -> Sequence[Entry]:
        return self.trace.entries if self._is_whole else self.trace.entries[: self.count]

    def event(self, index: int) -> Event:
        count = len(self.trace.entries)
        return self.trace.event(range(count if self._is_whole else min(count, self.count))[index])

    @property
    def header(self) -> TraceHeader:
        return self.trace.header

    def piece(self, token: int) -> str:
        return self.trace.piece(token)

    def is_special(self, token: int) -> bool:
        return self.trace.is_special(token)

    def reply(self, block: int | None = None) -> Reply:
        return self.trace.reply(block)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return self.trace.pictures

    @property
    def notice(self) -> str:
        return self.trace.notice

    @property
    def failure(self) -> str:
        return self.trace.failure

    def save(self, path: Path) -> None:
        self.trace.save(path)


def _copied(trace: Recording) -> int:
    """Returns the number of events at the beginning of a recording that were copied from its source."""
    parent = trace.header.parent
    if parent is None or not trace.header.changes:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda entry: 0 <= entry.block < parent.block, trace.entries))


class Handle(QObject):
    """A request to the engine. Its replies are delivered in the window's thread.

    Args:
        stop: stops the request.
    """

    replied = Signal(object)  # list[ServiceReply]: what is delivered together, in order
    is_paced = False  # its frames follow each other at a readable pace
    grows = False  # its masks hold growing text

    def __init__(self, stop: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._stop = stop
        self._views: dict[str, RunView] = {}  # of its runs, by id
        self._undelivered: list[ServiceReply] = []

    def stop(self) -> None:
        """Stops the request within one denoising step; its last replies follow at once."""
        self.is_paced = False
        self._stop()

    def add(self, reply: ServiceReply) -> None:
        """Adds a reply that is to be delivered. A run gets a view of its trace that ends at what was added."""
        match reply:
            case RunStarted(run_id, trace):
                self._views[run_id] = view = RunView(trace)
                reply = RunStarted(run_id, view)
            case RunAdvanced(run_id) if run_id in self._views:
                self._views[run_id].advance()
            case RunEnded(run_id) if run_id in self._views:
                self._views[run_id].show_all()
            case RaceEnded():  # its runs that have not ended are abandoned
                for view in self._views.values():
                    view.show_all()
        self._undelivered.append(reply)

    def deliver(self) -> None:
        """Reports what was added since the last time."""
        replies, self._undelivered = self._undelivered, []
        if replies:
            self._report(replies)
            self.replied.emit(replies)

    def _report(self, replies: list[ServiceReply]) -> None:
        """Reports replies by kind."""


class RunHandle(Handle):
    """One run, whose replies are reported by kind as well, before ``replied``."""

    started = Signal(object)  # its Recording, which grows with what is shown
    noted = Signal(object)  # a PromptRead or PromptScored
    changed = Signal(object)  # list[Event]: what is shown from now on
    revealed = Signal(float)  # another ``share`` of the latest step is shown
    ended = Signal(str, str)  # why it failed, in a sentence, and details; both are empty if it did not

    def __init__(self, request: RunRequest, stop: Callable[[], object], *, is_paced: bool) -> None:
        super().__init__(stop)
        self.request, self.grows = request, request.config.grows
        is_copied = isinstance(request, InfillRun)  # for the most part, from its source
        self.is_paced = is_paced and not is_copied
        self.share = 1.0  # of the tokens that the latest step accepts, those that are shown
        self.is_computed = False  # it has ended in the engine, and the rest is still being shown

    @property
    def recording(self) -> Recording | None:
        """The run as far as it is shown; None before it has begun."""
        return self._views.get(self.request.run_id)

    def _report(self, replies: list[ServiceReply]) -> None:
        for reply in replies:
            if isinstance(reply, RunStarted):
                self.started.emit(reply.trace)
            elif not isinstance(reply, RunAdvanced | RunEnded):
                self.noted.emit(reply)
        if events := [reply.event for reply in replies if isinstance(reply, RunAdvanced)]:
            self.changed.emit(events)
        if isinstance(replies[-1], RunEnded):
            self.ended.emit(tr(replies[-1].message), replies[-1].details)


class Pacing(QObject):
    """A queue from the engine's thread to the handles of the window, which is full from ``limit`` replies on.

    Args:
        on_drained: called after the queue was emptied.
    """

    delivered = Signal()  # handles have reported, or one is computed now
    noted = Signal(object)  # a MemoryUsed or TraceNotKept, which concern no single request
    _mail = Signal()  # the queue turned non-empty; emitted in the engine's thread

    def __init__(
        self,
        limit: int = 256,
        parent: QObject | None = None,
        now: Callable[[], float] = time.monotonic,
        on_drained: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self.on_drained, self._limit = on_drained, limit
        self._queue: deque[tuple[int, ServiceReply]] = deque()  # with the keys of their handles
        self._lock = threading.Lock()
        self._is_closed = False
        self._mail.connect(self.drain, Qt.ConnectionType.QueuedConnection)
        self._keys = itertools.count()
        self.runs: set[RunHandle] = set()  # that are not over
        self._handles: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._schedule = Schedule(SpeedClock(now, FULL_SPEED))
        self._is_smooth = True
        self._held: deque[tuple[int, ServiceReply]] = deque()  # taken from the queue, not delivered yet
        self._is_growing = False  # the block that is shown holds growing text
        self._timer = later(self, self.drain)

    def outlet(self, handle: Handle) -> HandleOutlet:
        """Returns what takes the replies for a handle, which come as long as somebody holds it, or its run goes on."""
        key = next(self._keys)
        self._handles[key] = handle
        if isinstance(handle, RunHandle):
            self.runs.add(handle)
        return HandleOutlet(self, key)

    def put(self, key: int, reply: ServiceReply) -> None:
        """Appends a reply; called in the engine's thread."""
        with self._lock:
            if self._is_closed:
                return
            self._queue.append((key, reply))
            is_first = len(self._queue) == 1
        if is_first:
            self._mail.emit()

    @property
    def is_full(self) -> bool:
        """True if the window is so far behind that its runs must pause."""
        return len(self._queue) >= self._limit

    def close(self) -> None:
        """Drops all replies, and all later ones."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()

    def set_speed(self, speed: float, *, is_smooth: bool = True) -> None:
        """Sets the speed at once, 1 is normal; ``FULL_SPEED`` does not hold replies.

        Without ``is_smooth``, all cells of a step change together.
        """
        self._is_smooth = is_smooth
        self._schedule.clock.speed = speed
        self.drain()

    def skip_all(self) -> None:
        """Stops holding replies of the present handles."""
        for handle in self.runs:
            handle.is_paced = False
        self.drain()

    @property
    def is_computed(self) -> bool:
        """True if a watched run has ended in the engine, and the rest is still being shown."""
        return any(run.is_computed for run in self.runs)

    @Slot()
    def drain(self) -> None:
        """Delivers the replies that are due, and sets the timer for the next ones."""
        self._timer.stop()
        with self._lock:
            fresh = list(self._queue)
            self._queue.clear()
        if fresh:
            self.on_drained()
        self._held.extend(fresh)
        due: dict[Handle, None] = {}
        while self._held and self._is_due(*self._held[0]):
            key, reply = self._held.popleft()
            handle = self._handles.get(key)
            if isinstance(reply, MemoryUsed | TraceNotKept):
                self.noted.emit(reply)
            elif handle is not None:
                self._follow(handle, reply)
                handle.add(reply)
                due[handle] = None
                if isinstance(handle, RunHandle) and isinstance(reply, RunEnded):
                    handle.share, handle.is_computed = 1.0, False
                    self.runs.discard(handle)
        has_news = self._look_ahead(due)
        for handle in due:
            handle.deliver()
        if due or has_news:
            self.delivered.emit()
        waits = [self._schedule.wait_seconds * 1000] if self._held else []
        if any(run.share < 1.0 for run in self.runs):
            waits.append(REVEAL_MS)
        if waits and not self._timer.isActive():
            self._timer.start(max(1, math.ceil(min(waits))))

    def _look_ahead(self, due: Container[Handle]) -> bool:
        """Updates the runs by what is held; those that are not ``due`` report it. True if one is computed now."""
        ended = {reply.run_id for _, reply in self._held if isinstance(reply, RunEnded)}
        has_news = False
        for run in list(self.runs):
            share = self._schedule.share if self._is_smooth and run.is_paced and not self._is_growing else 1.0
            before, run.is_computed = run.is_computed, run.is_paced and run.request.run_id in ended
            has_news |= run.is_computed != before
            if share != run.share:
                run.share = share
                if run not in due:
                    run.revealed.emit(share)
        return has_news

    def _is_due(self, key: int, reply: ServiceReply) -> bool:
        handle = self._handles.get(key)
        return handle is None or not self._is_frame(handle, reply) or self._schedule.is_due

    def _is_frame(self, handle: Handle, reply: ServiceReply) -> bool:
        """True if a reply is paced. Pins wait like frames, and are shown with the step or commit after them."""
        if not isinstance(reply, RunAdvanced) or not handle.is_paced:
            return False
        if isinstance(reply.event, CanvasStarted):
            return not (handle.grows and reply.event.filler is not None)
        return isinstance(reply.event, StepFinished | PrefixPinned | CanvasCommitted) and not self._is_growing

    def _follow(self, handle: Handle, reply: ServiceReply) -> None:
        """Updates the schedule for a reply that is delivered now."""
        if not isinstance(reply, RunAdvanced):
            if isinstance(reply, RunEnded):
                handle.is_paced = False
            return
        is_frame, event = self._is_frame(handle, reply), reply.event
        if isinstance(event, CanvasStarted):
            self._is_growing = handle.is_paced and not is_frame
        match event:
            case CanvasStarted() if is_frame:
                self._schedule.begin()
            case StepFinished() if is_frame:
                self._schedule.step(*self._ahead())
            case CanvasCommitted() if is_frame:
                self._schedule.end()

    def _ahead(self) -> tuple[int, bool]:
        """Returns the number of held steps of the shown block, and True if its commit is held, too."""
        steps = 0
        for _, reply in self._held:
            match reply:
                case RunAdvanced(_, StepFinished()):
                    steps += 1
                case RunAdvanced(_, CanvasCommitted()):
                    return steps, True
        return steps, False


class HandleOutlet:
    """Takes the replies for a handle. It refers to none: the engine's thread may be the last to refer to this."""

    def __init__(self, pacing: Pacing, key: int) -> None:
        self._pacing, self._key = pacing, key

    def put(self, reply: ServiceReply) -> None:
        self._pacing.put(self._key, reply)

    @property
    def is_full(self) -> bool:
        return self._pacing.is_full


Asked = TypeVar("Asked", bound=Handle)
ENDING_SECONDS = 10.0  # most time for the running step, or for the running part of a load


class EngineLink(QObject):
    """The window as a client of a scheduler. Must be shut down before it is destroyed."""

    def __init__(
        self, backend: Backend | BackendRouter, *, mailbox_limit: int = 256, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.threads = 0  # CPU threads for models loaded from now on; 0 leaves the choice to the model
        self.scheduler = Scheduler(backend)  # shared with other clients
        self.pacing = Pacing(mailbox_limit, self, now, self.scheduler.wake)

    def load(self, path_or_id: str, title: str, adapter: str | None = None) -> Handle:
        """Loads a model, with an adapter or without; cancels a running load or run."""
        self.pacing.skip_all()
        request = LoadRequest(path_or_id, title, self.threads, adapter)
        return self._ask(Handle(), partial(self.scheduler.load, request))

    def unload(self) -> Handle:
        """Unloads the model; cancels a running load or run."""
        self.pacing.skip_all()
        return self._ask(Handle(), self.scheduler.unload)

    def run(self, request: RunRequest, *, is_watched: bool = True) -> RunHandle:
        """Starts a run. It is paced only if ``is_watched``."""
        handle = RunHandle(request, partial(self._stop, request), is_paced=is_watched)
        return self._ask(handle, partial(self.scheduler.run_all, (request,), client=id(self)))

    def race(self, request: RaceRequest) -> Handle:
        """Starts a race, which is not paced."""
        return self._ask(Handle(partial(self._stop, request)), partial(self.scheduler.race, request))

    def read_board(self, request: BoardRequest) -> Handle:
        """Starts reading a Sudoku from a picture, which is not paced."""
        return self._ask(Handle(partial(self._stop, request)), partial(self.scheduler.read_board, request))

    def set_adapter(self, path_or_id: str | None) -> Handle:
        """Attaches an adapter to the loaded model, or detaches it with None, after the current run."""
        return self._ask(Handle(), partial(self.scheduler.set_adapter, AdapterRequest(path_or_id)))

    def measure(self, request: InfluenceRequest) -> Handle:
        """Measures an influence after the current run."""
        return self._ask(Handle(), partial(self.scheduler.measure, request))

    def _ask(self, handle: Asked, begin: Callable[[Outlet], object]) -> Asked:
        begin(self.pacing.outlet(handle))
        return handle

    def _stop(self, request: RunRequest | RaceRequest | BoardRequest) -> None:
        self.scheduler.stop(request)
        self.pacing.drain()  # what was held

    def handle_of(self, recording: Recording) -> RunHandle | None:
        """Returns the handle of a recording that still grows; None if there is none."""
        return next((run for run in self.pacing.runs if run.recording is recording), None)

    def shutdown(self) -> None:
        """Cancels everything and ends the thread; may be called again.

        A backend call that does not return within ``ENDING_SECONDS`` is abandoned, and the thread stays alive.
        """
        self.scheduler.stop_all()
        self.pacing.set_speed(FULL_SPEED)  # delivers all replies that still wait
        self.pacing.close()
        if not self.scheduler.close(ENDING_SECONDS):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self.scheduler.is_alive
