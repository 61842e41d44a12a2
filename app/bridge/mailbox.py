"""A bounded queue from the engine's thread to the window. Knows neither Qt nor what it carries."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
POLL_SECONDS = 0.05  # how often a waiting writer checks ``hurry()``


class Mailbox(Generic[Item]):
    """A FIFO queue. A writer that is ``limit`` items ahead waits for the reader, unless in a hurry."""

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: Item, hurry: Callable[[], bool] = lambda: False) -> bool:
        """Append an item; True if the box was empty before, so that the reader must be notified.

        Waits while the box is full, until it is drained or closed or ``hurry()`` is true: a cancelled run may thus
        exceed the bound by its last few items. A closed box drops new items.
        """
        with self._changed:
            while len(self._items) >= self.limit and not self._closed and not hurry():
                self._changed.wait(POLL_SECONDS)
            if self._closed:
                return False
            self._items.append(item)
            return len(self._items) == 1

    def drain(self) -> list[Item]:
        """Remove and return all items, in order."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self._changed.notify_all()
            return items

    def close(self) -> None:
        """Release all waiting writers; drop their items and all later ones."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._items)
