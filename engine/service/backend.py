"""The one interface to a model, whatever runs it: this machine, another one, or a fake in a test."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from engine import catalog
from engine.errors import SafelightError, Sentence
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    InfluenceMeasured,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadReply,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunReply,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest

M = TypeVar("M")
RunSteps: TypeAlias = Generator[RunReply | PassWanted, None, None]
"""A current run: its replies, and between them the passes that must be performed before it goes on."""


class Backend(Protocol):
    """Runs one model at a time. All methods are called from one thread, one after another.

    Only ``perform`` raises: other failures are reported in the replies.
    """

    @property
    def capabilities(self) -> Capabilities:
        """The kinds of requests that it can serve."""

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        """Loads a model in place of the present one; calls ``report`` with the progress.

        Reports ``LoadStarted``, ``LoadProgress`` a number of times, and finally ``ModelLoaded`` or ``LoadFailed``, and
        ``AdapterChanged`` after a model that was to have an adapter. The present model is unloaded only once the new
        one's files are checked. A cancelled request is abandoned at its next progress; its end is not reported.
        """

    def unload(self) -> ModelUnloaded:
        """Unloads the model."""

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        """True if a run can begin now next to the running ones.

        ``capabilities.parallel_runs`` of these advance at a time, the others wait for their clients. A run can always
        begin if no other is running.
        """

    def begin(self, request: RunRequest) -> RunSteps:
        """Begins a run and yields ``RunStarted``, ``RunAdvanced`` for each event, and always ``RunEnded``, each with
        its id.

        The run pauses until the next item is requested; a pass among the items is performed first. The exception of a
        failed pass can be thrown into it. Closing it abandons the run.
        """

    def perform(self, passes: Sequence[PassWanted]) -> None:
        """Performs passes of several runs, together if that is faster; at most one pass of each run.

        It may return early from passes that wait for another machine: their runs then yield them again.

        Raises:
            Exception: whatever failed. Passes that were performed before it are marked as done.
        """

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Attaches an adapter to the model, or detaches it."""

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        """Measures how strongly one token influences the others."""

    def sibling(self) -> Backend:
        """Returns another backend of the same kind, without a model, for a second model."""


def required(model: M | None) -> M:
    if model is None:
        raise SafelightError("no model is loaded; choose one first")
    return model


def run_alone(backend: Backend, request: RunRequest) -> Iterator[RunReply]:
    """Yields the replies of a run, and performs its passes alone."""
    with closing(backend.begin(request)) as steps:
        for item in performed(backend, steps):
            if not isinstance(item, PassWanted):
                yield item


def performed(backend: Backend, steps: RunSteps) -> RunSteps:
    """Yields the items of a run, each pass once it is performed; the run reports what a pass fails with."""
    return after_each_pass(steps, lambda wanted: backend.perform([wanted]))


def after_each_pass(steps: RunSteps, act: Callable[[PassWanted], object]) -> RunSteps:
    """Yields the items of a run, each pass once ``act`` is done with it.

    The run gets what ``act`` fails with, or whoever takes the items.
    """
    resume: Callable[[], RunReply | PassWanted] = steps.__next__
    while True:
        try:
            item = resume()
        except StopIteration:
            return
        resume = steps.__next__
        try:
            if isinstance(item, PassWanted):
                act(item)
        except Exception as error:
            resume = functools.partial(steps.throw, error)
        try:
            yield item
        except Exception as error:
            resume = functools.partial(steps.throw, error)


@dataclass(frozen=True)
class Runner:
    """A loaded model, and the backend that runs it."""

    backend: Backend
    model: LoadedModel


class LoadOutcome:
    """Collects what a backend reports of a load: the model, with its adapter if it wants one, or why it failed."""

    def __init__(self, *, wants_adapter: bool) -> None:
        self._wants_adapter = wants_adapter
        self.model: LoadedModel | None = None
        self.failure: LoadFailed | AdapterChanged | None = None
        self.ended = threading.Event()  # not set by a load that was cancelled

    def put(self, reply: object) -> None:
        match reply:
            case ModelLoaded(model):
                self.model = model
            case AdapterChanged(path, title, "") if self.model is not None:
                traits = catalog.traits(self.model.name, path)
                self.model = dataclasses.replace(self.model, adapter=path, adapter_title=title, traits=traits)
            case LoadFailed() | AdapterChanged():
                self.failure = reply
        if isinstance(reply, LoadFailed | AdapterChanged) or (self.model is not None and not self._wants_adapter):
            self.ended.set()


def load_sibling(backend: Backend, request: LoadRequest, progress: Callable[[float], object]) -> Runner | None:
    """Loads a model in a ``sibling`` of a backend; returns None if the request was cancelled meanwhile.

    Args:
        progress: called with the share that is done, 0 to 1.

    Raises:
        SafelightError: it cannot be loaded.
    """
    other, loading = backend.sibling(), LoadOutcome(wants_adapter=request.adapter is not None)

    def report(reply: LoadReply) -> None:
        loading.put(reply)
        if isinstance(reply, LoadProgress):
            progress(reply.share)

    other.load(request, report)
    if loading.failure is not None:
        other.unload()
        why = loading.failure.message.rstrip(".")
        raise SafelightError(Sentence("{model} cannot be loaded: {why}.", model=request.title, why=why))
    return None if loading.model is None else Runner(other, loading.model)
