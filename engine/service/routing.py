"""A model here or on another machine, by the path that it is loaded by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from engine.service.backend import Backend, RunSteps
from engine.service.capabilities import Capabilities
from engine.service.replies import (
    AdapterChanged,
    InfluenceMeasured,
    LoadFailed,
    LoadReply,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest, is_remote
from engine.text.message import Message


class RoutedBackend:
    """A ``Backend`` of two, of which one has the model: an address is the remote one's, all else the local one's.

    Args:
        make_remote: makes the remote one with the first address, so that a start does without what speaks HTTP.
    """

    def __init__(self, local: Backend, make_remote: Callable[[], Backend]) -> None:
        self._local, self._make_remote = local, make_remote
        self._remote: Backend | None = None
        self._present = local
        self._has_model = False

    @property
    def capabilities(self) -> Capabilities:
        return self._present.capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        wanted = self._local
        if is_remote(request.path_or_id):
            wanted = self._remote = self._remote or self._make_remote()
        is_other = wanted is not self._present

        def pass_on(reply: LoadReply) -> None:
            if isinstance(reply, ModelLoaded):
                if is_other:
                    self._present.unload()
                self._present, self._has_model = wanted, True
            elif isinstance(reply, LoadFailed):
                if is_other:
                    reply = dataclasses.replace(reply, kept=self._has_model)
                self._has_model = reply.kept
            report(reply)

        wanted.load(request, pass_on)

    def unload(self) -> ModelUnloaded:
        self._has_model = False
        return self._present.unload()

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        return self._present.admits(request, running)

    def begin(self, request: RunRequest) -> RunSteps:
        return self._present.begin(request)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        self._present.perform(passes)

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        return self._present.set_adapter(request)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        return self._present.measure(request)

    def sibling(self) -> Backend:
        """A local one: there is nothing to load beside what another machine runs."""
        return self._local.sibling()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return self._present.count_tokens(messages)
