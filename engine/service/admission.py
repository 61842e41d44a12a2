"""Decides which runs fit the device's memory at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.service.cache_pool import CachePool

if TYPE_CHECKING:
    from engine.layers.kv_cache import KVCache


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

    def begin(self, run_id: str, need: int) -> None:
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
        held = self._held.get(run_id)
        return max(0, self._needs[run_id] - (0 if held is None else held.device_bytes))
