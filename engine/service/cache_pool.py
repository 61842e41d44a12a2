"""Keeps the caches of runs that have ended: the next prompt reuses what it shares with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.models.prompt import Prompt

if TYPE_CHECKING:
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model

MOST_IDLE = 4  # caches that are kept


class CachePool:
    """Idle caches of one model, the one given back last at the end."""

    def __init__(self) -> None:
        self._idle: list[KVCache] = []

    def take(self, model: Model, prompt: Sequence[int]) -> KVCache:
        """The cache that holds most of a prompt's beginning, else a new one; at most one run has it."""
        if not self._idle:
            return model.new_cache()
        keys = prompt.keys if isinstance(prompt, Prompt) else prompt
        best = max(self._idle, key=lambda cache: cache.shared(keys))  # of equals the oldest
        self._idle.remove(best)
        return best

    def give_back(self, cache: KVCache) -> None:
        """Keep a cache whose run has ended; the one unused for longest may go."""
        self._idle.append(cache)
        del self._idle[:-MOST_IDLE]

    def let_go(self) -> bool:
        """Let the one go that is unused for longest; False where there is none."""
        if not self._idle:
            return False
        del self._idle[0]
        return True

    def clear(self) -> None:
        """Let all of them go."""
        self._idle.clear()
