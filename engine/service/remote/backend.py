"""Runs models of other machines; a thread reads the events of a run, and they are recorded here."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol, TypeAlias

from engine.catalog import SMALL
from engine.errors import SafelightError, Sentence
from engine.events import Event, GenerationFinished, TextArrived
from engine.pictures import BLIND
from engine.service.backend import RunSteps, required
from engine.service.recorder import Recorder, RunRecord, cancelled
from engine.service.remote.address import RemoteAddress
from engine.service.remote.calls import PATIENCE, Calls, Check, RemoteModel, RemotePatience, anywhere, models_of
from engine.service.remote.foreign import ForeignModel
from engine.service.remote.problems import RemoteError
from engine.service.remote.safelight import SafelightModel
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    InfluenceMeasured,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunStarted,
    explained,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.tokenizer import Tokenizer
from engine.trace.header import TraceHeader
from engine.trace.recording import Recording

AHEAD = 1_024  # items that are read ahead
SLICE_SECONDS = 0.05  # between two checks whether the stream is closed

Parts: TypeAlias = Generator[TraceHeader | Event, None, None]


class Dialect(Protocol):
    """A model on a server. Every method uses the network, and raises ``SafelightError`` without an answer."""

    loaded: LoadedModel

    def read(self, request: RunRequest, check: Check) -> Parts:
        """Yields the header of a run, then its events; in a thread of its own. ``check`` is called while waiting."""


class RequestCancelledError(Exception):
    """Raised inside a request to a server that was cancelled, or whose stream was closed."""


class BackgroundStream:
    """The items of an iterator that another thread reads.

    Args:
        read: makes the iterator; called in that thread with a function to call while waiting.
        news: notified whenever there is an item to take, or the end.
    """

    def __init__(self, read: Callable[[Check], Parts], news: threading.Condition) -> None:
        self._read, self._news = read, news
        self._items: deque[TraceHeader | Event] = deque()
        self._error: BaseException | None = None
        self._has_ended = self._is_closed = False
        self._thread = threading.Thread(target=self._go_through, name="safelight-remote", daemon=True)
        self._thread.start()

    def new_items(self) -> list[TraceHeader | Event]:
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
        failure: BaseException | None = None
        try:
            with closing(self._read(self._check)) as items:
                for item in items:
                    self._put(item)
        except RequestCancelledError:
            pass
        except Exception as error:  # raised by ``new_items``
            failure = error
        with self._news:
            self._error, self._has_ended = failure, True
            self._news.notify_all()

    def _put(self, item: TraceHeader | Event) -> None:
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
        self._stream = BackgroundStream(lambda check: model.read(request, check), news)

    def steps(self) -> RunSteps:
        """Yields its replies but the last."""
        stream, request = self._stream, self._request
        while not stream.is_over:
            if request.cancel.is_set():
                stream.close()
                if self._record is not None:
                    yield from self._reply(self._cancelled(self._record.trace))
                return
            items = stream.new_items()
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


class RemoteBackend:
    """A ``Backend`` for load paths that are addresses (``address``). A run's passes wait for the server's data.

    Args:
        traces: the folder where runs are stored; None stores none.
        key_of: returns the key to the server at an origin ("http://host:port"), or None; called at each load.
        is_allowed: True if a host may be reached; called before each request, in any thread.
    """

    def __init__(
        self,
        traces: Path | None = None,
        key_of: Callable[[str], str | None] = lambda _origin: None,
        is_allowed: Callable[[str], bool] = anywhere,
        patience: RemotePatience = PATIENCE,
    ) -> None:
        self._key_of, self._is_allowed, self._patience = key_of, is_allowed, patience
        self._recorder = Recorder(traces)
        self._model: Dialect | None = None
        self._tokenizers: dict[str, Tokenizer] = {}  # by the fingerprint of their model
        self._news = threading.Condition()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities() if self._model is None else self._model.loaded.capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        report(LoadProgress("Asking the server", 0.0))
        try:
            model = self._model_at(request)
        except RequestCancelledError:
            return
        except Exception as error:  # whatever the libraries raise
            report(LoadFailed(request.path_or_id, *_explained(error), kept=self._model is not None))
            return
        if request.cancel.is_set():
            return
        self._model = model
        report(ModelLoaded(model.loaded))
        if request.adapter is not None and request.adapter != model.loaded.adapter:
            report(self.set_adapter(AdapterRequest(request.adapter)))

    def _model_at(self, request: LoadRequest) -> Dialect:
        """Returns the model at an address; without a name in it, the server's only one. The server must list it, unless
        servers of its kind have unlisted models."""
        address = RemoteAddress.parse(request.path_or_id)
        calls = Calls(address, self._key_of(address.origin), self._is_allowed, self._patience)

        def check() -> None:
            if request.cancel.is_set():
                raise RequestCancelledError

        listed = models_of(calls, check)
        if not address.model:
            address = _only(listed, address)
            calls = dataclasses.replace(calls, address=address)
        listing = next((model for model in listed if model.id == address.model), None)
        if listing is None:
            if listed and listed[0].kind != "openai":  # other kinds serve models that they do not list
                raise RemoteError(
                    "The server at {where} has no model {model}; it has {names}.",
                    where=address.origin,
                    model=address.model,
                    names=_names(listed),
                )
            listing = RemoteModel(address, "openai")
        if listing.kind == "safelight":
            return SafelightModel(calls, request.title, self._tokenizers, check)
        return ForeignModel(calls, listing, request.title)

    def unload(self) -> ModelUnloaded:
        self._model = None
        return ModelUnloaded()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        model = None if self._model is None else self._model.loaded
        if model is not None and request.path_or_id == model.adapter:
            return AdapterChanged(request.path_or_id, model.adapter_title)
        message = Sentence("The server chooses its adapters; choose one of its models instead.")
        return AdapterChanged(request.path_or_id, message=message)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        return InfluenceMeasured(request, None, "Influence is measured where the model runs.")

    def sibling(self) -> RemoteBackend:
        return RemoteBackend(self._recorder.folder, self._key_of, self._is_allowed, self._patience)

    def admits(self, _request: RunRequest, _running: Sequence[RunRequest]) -> bool:
        return True

    def begin(self, request: RunRequest) -> RunSteps:
        if request.cancel.is_set():
            yield RunEnded(request.run_id)
            return
        message = details = ""
        run: RemoteRun | None = None
        try:
            if request.pictures and not self.capabilities.images:
                raise SafelightError(BLIND)
            run = RemoteRun(request, required(self._model), self._recorder, self._news)
            yield from run.steps()
        except GeneratorExit:
            if run is not None:
                run.end("The run was cancelled.")
            raise
        except Exception as error:  # as in ``load``
            message, details = _explained(error)
        if run is not None:
            run.end(message)
        yield from self._recorder.take_warnings()
        yield RunEnded(request.run_id, message, details)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        streams = [wanted.what for wanted in passes if isinstance(wanted.what, BackgroundStream)]
        with self._news:
            self._news.wait_for(lambda: any(stream.has_news for stream in streams), SLICE_SECONDS)
        for wanted in passes:
            wanted.is_done = True


def _only(listed: Sequence[RemoteModel], address: RemoteAddress) -> RemoteAddress:
    """Returns the address of the only model that a server lists, or of all small ones together.

    Raises:
        RemoteError: it lists none, or several.
    """
    match listed:
        case [model]:
            return model.address
        case [model, *_] if model.id == SMALL:
            return model.address
        case []:
            raise RemoteError("The server at {where} lists no model. Load one there.", where=address.origin)
    raise RemoteError(
        "The server at {where} has several models: {names}. Add one to the address, as in {example}.",
        where=address.origin,
        names=_names(listed),
        example=str(listed[0].address),
    )


def _names(listed: Sequence[RemoteModel]) -> str:
    return ", ".join(model.id for model in listed[:5]) + ("" if len(listed) <= 5 else ", …")


def _explained(error: Exception) -> tuple[str, str]:
    """Returns as ``explained``, with a sentence that can be translated."""
    return (error.sentence, "") if isinstance(error, RemoteError) else explained(error)
