"""The one interface to a model, whatever runs it: this machine, another one, or a fake in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from engine.service.capabilities import Capabilities
from engine.service.replies import AdapterChanged, InfluenceMeasured, LoadReply, ModelUnloaded, RunReply
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.message import Message


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

    def run(self, request: RunRequest) -> Iterator[RunReply]:
        """Generate: ``RunStarted``, ``RunAdvanced`` for each event, and always ``RunEnded``, each with the run's id.

        The run pauses until the next reply is requested. Closing the iterator abandons the run.
        """

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Attach an adapter to the model, or detach it."""

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        """Measure how strongly one token influences the others."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Number of tokens of a conversation in the model's template; from any thread.

        Raises:
            SafelightError: no model is loaded, or its template rejects the messages.
        """
