"""The embedded models, each loaded once per process, for tests that only run them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.catalog import ADAPTERS, is_embedded
from engine.service import LocalBackend

if TYPE_CHECKING:
    from engine.models.model import Model

ADAPTED = {adapter.base for adapter in ADAPTERS}  # each backend gives them an adapter of its own


@functools.cache
def embedded(name: str) -> Model:
    """Returns an embedded model. It is everyone's: leave its weights as they are, and give it no adapter."""
    from engine.models.model import load_model

    return load_model(name)


class ReadyBackend(LocalBackend):
    """The local backend over embedded models that an earlier test may have loaded; anything else it loads itself."""

    def sibling(self) -> ReadyBackend:
        return ReadyBackend(self._recorder.folder)

    def load_model(self, path_or_id: str, progress: Callable[[float], None], threads: int) -> Model:
        if threads or not is_embedded(path_or_id) or path_or_id in ADAPTED:
            return super().load_model(path_or_id, progress, threads)
        progress(1.0)
        return embedded(path_or_id)
