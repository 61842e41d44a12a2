"""A queue from the engine's thread to the window. Knows neither Qt nor what it carries."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """A FIFO queue, full from ``limit`` items on; ``on_drained`` is called when a reader has emptied it."""

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self.on_drained: Callable[[], None] = lambda: None
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def put(self, item: Item) -> bool:
        """Append an item; True if the box was empty before, so that the reader must be notified.

        Does not wait, however full the box is; a closed one drops new items.
        """
        with self._lock:
            if self._closed:
                return False
            self._items.append(item)
            return len(self._items) == 1

    @property
    def is_full(self) -> bool:
        """Whether the writer is to wait for the reader."""
        return len(self) >= self.limit

    def drain(self) -> list[Item]:
        """Remove and return all items, in order."""
        with self._lock:
            items = list(self._items)
            self._items.clear()
        if items:
            self.on_drained()
        return items

    def close(self) -> None:
        """Drop all items, and all later ones."""
        with self._lock:
            self._closed = True
            self._items.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)
