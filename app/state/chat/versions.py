"""Alternatives of which one is on show: answers to a prompt, or prompts after an answer. Knows nothing of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(eq=False)
class Versions(Generic[Item]):
    """Oldest first. ``shown`` is a place in ``items``, 0 where there are none."""

    items: list[Item] = field(default_factory=list)
    shown: int = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def current(self) -> Item | None:
        """The one on show."""
        return self.items[self.shown] if self.items else None

    def add(self, item: Item) -> None:
        """Add the newest and put it on show."""
        self.items.append(item)
        self.shown = len(self.items) - 1

    def show(self, index: int) -> None:
        """Put one on show; an index beyond the ends takes the end."""
        self.shown = max(0, min(index, len(self.items) - 1))

    def remove(self, item: Item) -> int:
        """Take one out; its neighbour is on show then. Returns the place it had."""
        place = next(index for index, other in enumerate(self.items) if other is item)
        del self.items[place]
        self.show(self.shown - (place < self.shown))
        return place

    def put_back(self, item: Item, place: int) -> None:
        """Undo ``remove``; it is on show again."""
        self.items.insert(place, item)
        self.shown = place
