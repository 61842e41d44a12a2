"""The one way to use a model from outside, whatever runs it: this machine, another one, or a test's stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from engine.service.capabilities import Capabilities
from engine.service.replies import AdapterChanged, InfluenceMeasured, LoadReply, ModelUnloaded, RunReply
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.message import Message


class Backend(Protocol):
    """One model at a time. All but ``count_tokens`` are called in one thread, one after the other.

    Nothing but ``count_tokens`` raises: what fails is told in the reply.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked."""

    def load(self, request: LoadRequest, tell: Callable[[LoadReply], None]) -> None:
        """Load a model in place of the one that is there, with its progress told from within.

        Tells ``LoadStarted``, ``LoadProgress`` a number of times, and in the end ``ModelLoaded`` or ``LoadFailed``. A
        request that is cancelled is abandoned with its next progress, and no end is told.
        """

    def unload(self) -> ModelUnloaded:
        """Let go of the model."""

    def run(self, request: RunRequest) -> Iterator[RunReply]:
        """Generate: ``RunStarted``, ``RunAdvanced`` for each event, and ``RunEnded``, always, each with the run's id.

        The run waits while nobody asks for the next reply. Closing the iterator gives the run up.
        """

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Put an adapter on the model, or take it off."""

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        """Measure how far one token moves the others."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of a conversation as the model's template writes it; in any thread.

        Raises:
            SafelightError: there is no model, or its template refuses the messages.
        """
