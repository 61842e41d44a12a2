"""Keeps the caches of runs that have ended: the next prompt reuses the part that it shares with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.models.prompt import Prompt

if TYPE_CHECKING:
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model

MOST_IDLE = 4  # caches in the pool


class CachePool:
    """The idle caches of one model, the latest at the end."""

    def __init__(self) -> None:
        self._idle: list[KVCache] = []

    def take(self, model: Model, prompt: Sequence[int]) -> KVCache:
        """Returns the cache that holds most of a prompt's beginning, else a new one; at most one run has it."""
        if not self._idle:
            return model.new_cache()
        keys = prompt.keys if isinstance(prompt, Prompt) else prompt
        best = max(self._idle, key=lambda cache: cache.shared(keys))  # the oldest of equals
        self._idle.remove(best)
        return best

    def give_back(self, cache: KVCache) -> None:
        """Keeps the cache of a run that has ended; the one unused for longest may be dropped."""
        self._idle.append(cache)
        del self._idle[:-MOST_IDLE]

    def drop_oldest(self) -> bool:
        """Drops the cache that is unused for longest; returns False if there is none."""
        if not self._idle:
            return False
        del self._idle[0]
        return True

    def clear(self) -> None:
        """Drops all caches."""
        self._idle.clear()
