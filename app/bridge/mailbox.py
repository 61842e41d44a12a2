"""A queue from the engine's thread to the window. Knows neither Qt nor the type of its items."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """A FIFO queue that is full from ``limit`` items on; ``on_drained`` is called after a reader has emptied it."""

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self.on_drained: Callable[[], None] = lambda: None
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def put(self, item: Item) -> bool:
        """Appends an item. Returns True if the box was empty, so that the reader must be notified.

        It does not wait if the box is full. A closed box drops new items.
        """
        with self._lock:
            if self._closed:
                return False
            self._items.append(item)
            return len(self._items) == 1

    @property
    def is_full(self) -> bool:
        """True if the writer should wait for the reader."""
        return len(self) >= self.limit

    def drain(self) -> list[Item]:
        """Removes and returns all items, in order."""
        with self._lock:
            items = list(self._items)
            self._items.clear()
        if items:
            self.on_drained()
        return items

    def close(self) -> None:
        """Drops all items, and all later ones."""
        with self._lock:
            self._closed = True
            self._items.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)
