"""One run of a remote model: a thread reads its events; they are recorded here and become replies."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Generic, Protocol, TypeVar

from engine.events import Event, GenerationFinished, TextArrived
from engine.service.backend import RunSteps
from engine.service.recorder import Recorder, RunRecord, cancelled
from engine.service.remote.calls import Check
from engine.service.replies import LoadedModel, PassWanted, RunAdvanced, RunStarted
from engine.service.requests import RunRequest
from engine.trace.header import TraceHeader
from engine.trace.recording import Recording

AHEAD = 1_024  # items that are read ahead
SLICE_SECONDS = 0.05  # between two checks whether the stream is closed

T = TypeVar("T")


class Dialect(Protocol):
    """A model on a server. Every method uses the network, and raises ``SafelightError`` without an answer."""

    loaded: LoadedModel

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        """Yields the header of a run, then its events; in a thread of its own. ``check`` is called while waiting."""


class RequestCancelledError(Exception):
    """Raised inside a request to a server that was cancelled, or whose stream was closed."""


class BackgroundStream(Generic[T]):
    """The items of an iterator that another thread reads.

    Args:
        read: makes the iterator; called in that thread with a function to call while waiting.
        news: notified whenever there is an item to take, or the end.
    """

    def __init__(self, read: Callable[[Check], Generator[T, None, None]], news: threading.Condition) -> None:
        self._read, self._news = read, news
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._has_ended = self._is_closed = False
        self._thread = threading.Thread(target=self._go_through, name="safelight-remote", daemon=True)
        self._thread.start()

    def take(self) -> list[T]:
        """Returns the items since the last call, in order; may be empty.

        Raises:
            BaseException: that of the iterator, once all items before it are taken.
        """
        with self._news:
            items = list(self._items)
            self._items.clear()
            self._news.notify_all()
            if not items and self._error is not None:
                error, self._error = self._error, None
                raise error
        return items

    @property
    def has_news(self) -> bool:
        """True if there is an item to take, or the stream has ended."""
        return bool(self._items) or self._has_ended

    @property
    def is_over(self) -> bool:
        """True if all items are taken."""
        return self._has_ended and not self._items and self._error is None

    def close(self) -> None:
        """Ends the stream and its connection; waits for its thread, at most ten times ``SLICE_SECONDS``."""
        self._is_closed = True
        with self._news:
            self._news.notify_all()
        self._thread.join(10 * SLICE_SECONDS)

    def _check(self) -> None:
        if self._is_closed:
            raise RequestCancelledError

    def _go_through(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._read(self._check)) as items:
                for item in items:
                    self._put(item)
        except RequestCancelledError:
            pass
        except Exception as found:  # raised by ``take``
            error = found
        with self._news:
            self._error, self._has_ended = error, True
            self._news.notify_all()

    def _put(self, item: T) -> None:
        with self._news:
            while len(self._items) >= AHEAD and not self._is_closed:
                self._news.wait(SLICE_SECONDS)
            self._check()
            self._items.append(item)
            self._news.notify_all()


class RemoteRun:
    """One run: its stream, and its record once it has begun."""

    def __init__(self, request: RunRequest, model: Dialect, recorder: Recorder, news: threading.Condition) -> None:
        self._request, self._model, self._recorder = request, model, recorder
        self._record: RunRecord | None = None
        self._begun: float | None = None  # when the first text came
        self._stream: BackgroundStream[TraceHeader | Event] = BackgroundStream(
            lambda check: model.read(request, check), news
        )

    def steps(self) -> RunSteps:
        """Yields its replies but the last."""
        stream, request = self._stream, self._request
        while not stream.is_over:
            if request.cancel.is_set():
                stream.close()
                if self._record is not None:
                    yield from self._reply(self._cancelled(self._record.trace))
                return
            items = stream.take()
            for item in _joined(items):
                yield from self._reply(item)
            if not items and not stream.is_over:
                yield PassWanted(stream)

    def _reply(self, item: TraceHeader | Event) -> RunSteps:
        if isinstance(item, TraceHeader):
            model = self._model.loaded
            keep = self._request.keep
            texts, pictures = (model.piece, model.is_special, model.decode), self._request.pictures
            self._record = self._recorder.open(item, *texts, pictures, keep=keep)
            yield from self._recorder.take_warnings()
            yield RunStarted(self._request.run_id, self._record.trace)
        elif self._record is not None:
            if self._begun is None and isinstance(item, TextArrived):
                self._begun = time.monotonic()
            self._record.append(item)
            yield from self._recorder.take_warnings()
            yield RunAdvanced(self._request.run_id, item)

    def _cancelled(self, trace: Recording) -> GenerationFinished:
        steps = trace.steps
        seconds = time.monotonic() - self._begun if self._begun is not None else sum(step.seconds for step in steps)
        return cancelled(trace, len(steps), seconds)

    def end(self, failure: str) -> None:
        """Closes the stream and the record."""
        self._stream.close()
        if self._record is not None:
            self._record.end(failure)


def _joined(items: Sequence[TraceHeader | Event]) -> Sequence[TraceHeader | Event]:
    """Joins texts that came together, so that a fast server does not make a trace of single letters."""
    joined: list[TraceHeader | Event] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, TextArrived) and isinstance(last, TextArrived) and item.is_thought == last.is_thought:
            joined[-1] = TextArrived(last.text + item.text, last.is_thought, last.counted + item.counted)
        else:
            joined.append(item)
    return joined
