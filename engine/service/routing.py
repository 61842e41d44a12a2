"""Chooses the backend of a model by the path that it is loaded by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine.catalog import SMALL
from engine.service.backend import Backend
from engine.service.replies import LoadFailed, LoadReply, ModelLoaded, ModelUnloaded
from engine.service.requests import LoadRequest, is_remote
from engine.service.small import SmallBackend


class BackendRouter:
    """Backends, one of which has the model: the remote one loads an address, another all small models, the local one
    all else.

    Args:
        local: loads models on this machine.
        make_remote: makes the remote one at the first address, so that a start does not import an HTTP client; without
            it all is loaded by the local one.

    Attributes:
        active: the backend of the loaded model; the local one at first.
    """

    def __init__(self, local: Backend, make_remote: Callable[[], Backend] | None = None) -> None:
        self.local = self.active = local
        self._make_remote = make_remote
        self._remote: Backend | None = None
        self._small: Backend | None = None
        self._has_model = False

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        """Loads a model as ``Backend.load`` does; the other backend's model is unloaded once this one is there."""
        chosen = self._backend_of(request.path_or_id)
        is_other = chosen is not self.active

        def pass_on(reply: LoadReply) -> None:
            if isinstance(reply, ModelLoaded):
                if is_other:
                    self.active.unload()
                self.active, self._has_model = chosen, True
            elif isinstance(reply, LoadFailed):
                if is_other:
                    reply = dataclasses.replace(reply, kept=self._has_model)
                self._has_model = reply.kept
            report(reply)

        chosen.load(request, pass_on)

    def unload(self) -> ModelUnloaded:
        self._has_model = False
        return self.active.unload()

    def _backend_of(self, path_or_id: str) -> Backend:
        if path_or_id == SMALL:
            self._small = self._small or SmallBackend(self.local)
            return self._small
        if self._make_remote is None or not is_remote(path_or_id):
            return self.local
        self._remote = self._remote or self._make_remote()
        return self._remote
