"""The one interface to a model, whatever runs it: this machine, another one, or a fake in a test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol, TypeAlias

from engine.service.capabilities import Capabilities
from engine.service.replies import (
    AdapterChanged,
    InfluenceMeasured,
    LoadReply,
    ModelUnloaded,
    PassWanted,
    RunReply,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.message import Message

RunSteps: TypeAlias = Generator[RunReply | PassWanted, None, None]
"""A run under way: its replies, and between them the passes that must be performed before it goes on."""


class Backend(Protocol):
    """One model at a time. All methods but ``count_tokens`` are called from one thread, one after another.

    Only ``count_tokens`` raises: other failures are reported in the replies.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What requests it can serve."""

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        """Load a model in place of the present one; calls ``report`` with the progress.

        Reports ``LoadStarted``, ``LoadProgress`` a number of times, and finally ``ModelLoaded`` or ``LoadFailed``, and
        ``AdapterChanged`` after a model that was to have an adapter. The present model is let go only once the new
        one's files are checked. A cancelled request is abandoned at its next progress; its end is not reported.
        """

    def unload(self) -> ModelUnloaded:
        """Unload the model."""

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        """Whether a run can begin now beside those under way, of which ``capabilities.parallel_runs`` are taken further
        at a time, and the others wait for their clients. With none under way it always can.
        """

    def begin(self, request: RunRequest) -> RunSteps:
        """Generate: ``RunStarted``, ``RunAdvanced`` for each event, and always ``RunEnded``, each with the run's id.

        The run pauses until the next item is requested; a pass that it wants is performed first. What a pass fails
        with can be thrown into it. Closing it abandons the run.
        """

    def perform(self, passes: Sequence[PassWanted]) -> None:
        """Perform passes of several runs, together where that is faster; one of each run at most.

        It may return early from passes that wait for something else than this machine: their runs then ask again.

        Raises:
            Exception: whatever failed. Passes that were performed before it are marked as done.
        """

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Attach an adapter to the model, or detach it."""

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        """Measure how strongly one token influences the others."""

    def sibling(self) -> Backend:
        """Another one of its kind, without a model, for one that is to be loaded beside this one's."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Number of tokens of a conversation in the model's template; from any thread.

        Raises:
            SafelightError: no model is loaded, or its template rejects the messages.
        """


def run_alone(backend: Backend, request: RunRequest) -> Iterator[RunReply]:
    """Yields the replies of a run, whose passes are performed with none of other runs."""
    with closing(backend.begin(request)) as steps:
        for item in performed(backend, steps):
            if not isinstance(item, PassWanted):
                yield item


def performed(backend: Backend, steps: RunSteps) -> RunSteps:
    """Yields the items of a run, each pass once it is performed; the run reports what a pass fails with."""
    resume: Callable[[], RunReply | PassWanted] = steps.__next__
    while True:
        try:
            item = resume()
        except StopIteration:
            return
        resume = steps.__next__
        if isinstance(item, PassWanted):
            try:
                backend.perform([item])
            except Exception as error:
                resume = functools.partial(steps.throw, error)
        yield item
