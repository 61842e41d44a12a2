"""Which runs fit the memory of the device beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.service.cache_pool import CachePool

if TYPE_CHECKING:
    from engine.layers.kv_cache import KVCache


class Admission:
    """Knows what the runs under way take at most, and how much of that they have.

    Args:
        caches: idle ones; the longest unused are let go where room is needed.
    """

    def __init__(self, caches: CachePool) -> None:
        self._caches = caches
        self._needs: dict[str, int] = {}  # bytes of each run under way
        self._held: dict[str, KVCache] = {}
        self._asked = ("", 0)  # the run that was asked about last, and its bytes

    @property
    def running(self) -> int:
        """Runs under way."""
        return len(self._needs)

    def fits(self, run_id: str, need: Callable[[], int], free: Callable[[], int]) -> bool:
        """Whether a run has room beside those under way, once idle caches have made it.

        Args:
            need: the bytes that it takes at most; asked once a run.
            free: the bytes that are free now.
        """
        if self._asked[0] != run_id:
            self._asked = run_id, need()
        return self._makes_room(self._asked[1] + sum(map(self._outstanding, self._needs)), free)

    def begin(self, run_id: str, need: int) -> None:
        """A run begins that takes so many bytes at most."""
        self._needs[run_id] = need

    def hold(self, run_id: str, cache: KVCache, free: Callable[[], int]) -> None:
        """A run has its cache; where there is no room for the rest, idle ones make it."""
        self._held[run_id] = cache
        self._makes_room(sum(map(self._outstanding, self._needs)), free)

    def end(self, run_id: str) -> None:
        """A run has ended, or could not begin."""
        self._needs.pop(run_id, None)
        self._held.pop(run_id, None)

    def _makes_room(self, wanted: int, free: Callable[[], int]) -> bool:
        while wanted > free():
            if not self._caches.let_go():
                return False
        return True

    def _outstanding(self, run_id: str) -> int:
        """What a run may still take."""
        held = self._held.get(run_id)
        return max(0, self._needs[run_id] - (0 if held is None else held.device_bytes))
