"""Decides which runs fit the device's memory at the same time, and keeps the caches of those that have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.models.prompt import Prompt

if TYPE_CHECKING:
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model


MAX_IDLE = 4  # caches in the pool


class CachePool:
    """The idle caches of one model, the latest at the end: the next prompt reuses the part that it shares with one."""

    def __init__(self) -> None:
        self._idle: list[KVCache] = []

    def lend(self, model: Model, prompt: Sequence[int]) -> KVCache:
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
        del self._idle[:-MAX_IDLE]

    def drop_oldest(self) -> bool:
        """Drops the cache that is unused for longest; returns False if there is none."""
        if not self._idle:
            return False
        del self._idle[0]
        return True

    def clear(self) -> None:
        self._idle.clear()


class Admission:
    """The largest memory that each current run may take, and the part that it has already.

    Args:
        caches: idle ones; the longest unused are freed when room is needed.
    """

    def __init__(self, caches: CachePool) -> None:
        self._caches = caches
        self._needs: dict[str, int] = {}  # bytes of each current run
        self._held: dict[str, KVCache] = {}
        self._asked = ("", 0)  # the last run of ``fits``, and its bytes

    @property
    def running(self) -> int:
        """The number of current runs."""
        return len(self._needs)

    def fits(self, run_id: str, need: Callable[[], int], free: Callable[[], int]) -> bool:
        """True if a run has room next to the current ones; frees idle caches for it.

        Args:
            need: returns the most bytes that it takes; called once for each run.
            free: returns the bytes that are free now.
        """
        if self._asked[0] != run_id:
            self._asked = run_id, need()
        return self._makes_room(self._asked[1] + sum(map(self._outstanding, self._needs)), free)

    def reserve(self, run_id: str, need: int) -> None:
        """Counts a run that takes at most ``need`` bytes."""
        self._needs[run_id] = need

    def hold(self, run_id: str, cache: KVCache, free: Callable[[], int]) -> None:
        """Notes the cache of a run; frees idle caches if there is no room for the rest of the run."""
        self._held[run_id] = cache
        self._makes_room(sum(map(self._outstanding, self._needs)), free)

    def end(self, run_id: str) -> None:
        """Removes a run that has ended, or could not begin."""
        self._needs.pop(run_id, None)
        self._held.pop(run_id, None)

    def _makes_room(self, wanted: int, free: Callable[[], int]) -> bool:
        while wanted > free():
            if not self._caches.drop_oldest():
                return False
        return True

    def _outstanding(self, run_id: str) -> int:
        """Returns the bytes that a run may still take."""
        cache = self._held.get(run_id)
        return max(0, self._needs[run_id] - (0 if cache is None else cache.device_bytes))
