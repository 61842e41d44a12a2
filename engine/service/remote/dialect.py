"""What a remote backend needs of a server, whatever the server speaks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from engine.events import Event, Influence
from engine.service.remote.calls import Check
from engine.service.replies import AdapterChanged, LoadedModel
from engine.service.requests import AdapterRequest, InfluenceRequest, RunRequest
from engine.text.message import Message
from engine.trace.header import TraceHeader


class Dialect(Protocol):
    """A model on a server. Every method asks the server, and raises ``SafelightError`` where it does not answer."""

    loaded: LoadedModel

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        """A run: its header, then its events, in a thread of its own. ``check`` is called while waiting."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Number of tokens of a conversation, or about that."""

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Attach an adapter to the model, or detach it, for everybody that the server serves."""

    def measure(self, request: InfluenceRequest, /) -> Influence:
        """How strongly one token influences the others."""
