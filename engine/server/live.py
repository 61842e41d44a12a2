"""The requests that are being answered, and the last ones that were, for a window. From any thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.trace.header import new_id
from engine.trace.recording import Recording

LiveState = Literal["waiting", "running", "finished", "failed", "cancelled"]
ENDED: tuple[LiveState, ...] = ("finished", "failed", "cancelled")
MAX_ENDED = 50  # that stay on the list
MAX_PICTURE_BYTES = 2**26  # bytes of the pictures of ended requests, kept with their events
MAX_EVENTS = 2_000  # in the traces of ended requests; older traces are dropped. A large model's step takes 20 kB


@dataclass(frozen=True)
class LiveRequest:
    """The state of one request at a moment."""

    id: str
    endpoint: str
    model: str
    started: float  # seconds since 1970
    ignored: tuple[str, ...] = ()  # fields of the request that were passed over
    state: LiveState = "waiting"
    prompt_tokens: int = 0
    tokens: int = 0  # of the answer so far
    seconds: float = 0.0  # from the request to now, or to its end
    trace: Recording | None = field(default=None, compare=False, repr=False)  # None also if it was dropped
    cancel: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def stop(self) -> None:
        """Stops its run within a denoising step."""
        self.cancel.set()


class LiveRequests:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: dict[str, LiveRequest] = {}
        self._ended: deque[LiveRequest] = deque(maxlen=MAX_ENDED)
        self._callbacks: list[Callable[[], None]] = []

    def open(self, endpoint: str, model: str, cancel: threading.Event, ignored: tuple[str, ...] = ()) -> LiveRequest:
        """Adds a request; ``cancel`` is the flag that stops its run."""
        request = LiveRequest(new_id(), endpoint, model, time.time(), ignored, cancel=cancel)
        with self._lock:
            self._active[request.id] = request
        self._report()
        return request

    def update(self, id: str, **changes: Any) -> None:
        """Changes fields of a request; with an ended state it moves to the ended ones."""
        with self._lock:
            before = self._active.get(id)
            if before is None:
                return
            after = replace(before, seconds=time.time() - before.started, **changes)
            if after.state in ENDED:
                del self._active[id]
                self._ended.appendleft(after)
                self._let_go_of_traces()
            else:
                self._active[id] = after
        self._report()

    def _let_go_of_traces(self) -> None:
        events = pictured = 0
        for place, request in enumerate(self._ended):
            if request.trace is None:
                continue
            events += len(request.trace.entries)
            pictured += sum(len(picture.data) for picture in request.trace.pictures)
            if place and (events > MAX_EVENTS or pictured > MAX_PICTURE_BYTES):
                self._ended[place] = replace(request, trace=None)

    def snapshot(self) -> tuple[LiveRequest, ...]:
        """Returns the requests, newest first: running ones, then ended ones."""
        now = time.time()
        with self._lock:
            active = [replace(one, seconds=now - one.started) for one in reversed(self._active.values())]
            return (*active, *self._ended)

    def stop_all(self) -> None:
        """Stops all runs within a denoising step."""
        for request in self.snapshot():
            if request.state not in ENDED:
                request.stop()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back after each change, in the thread where it happens; the returned function ends that."""
        with self._lock:
            self._callbacks.append(callback)

        def end() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    def _report(self) -> None:
        with self._lock:
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            callback()
