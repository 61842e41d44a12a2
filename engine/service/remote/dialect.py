"""The interface of a remote model, whatever its server speaks."""

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
    """A model on a server. Every method uses the network, and raises ``SafelightError`` without an answer."""

    loaded: LoadedModel

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        """Yields the header of a run, then its events; in a thread of its own. ``check`` is called while waiting."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Returns the number of tokens of a conversation, or an estimate."""

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        """Attaches an adapter to the model, or detaches it, for all clients of the server."""

    def measure(self, request: InfluenceRequest, /) -> Influence:
        """Measures how strongly one token influences the others."""
