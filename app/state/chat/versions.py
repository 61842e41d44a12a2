"""A list of versions of which one is shown: answers to a prompt, or prompts after an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(eq=False)
class Versions(Generic[Item]):
    """Versions, oldest first. ``shown`` is an index into ``items``, 0 if it is empty."""

    items: list[Item] = field(default_factory=list)
    shown: int = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def current(self) -> Item | None:
        """The item that is shown; None if there are none."""
        return self.items[self.shown] if self.items else None

    def add(self, item: Item) -> None:
        """Adds the newest item and shows it."""
        self.items.append(item)
        self.shown = len(self.items) - 1

    def show(self, index: int) -> None:
        """Shows the item at an index, which is clamped to the list."""
        self.shown = max(0, min(index, len(self.items) - 1))

    def remove(self, item: Item) -> int:
        """Removes an item and shows its neighbour if it was shown. Returns the index it had."""
        place = next(index for index, other in enumerate(self.items) if other is item)
        del self.items[place]
        self.show(self.shown - (place < self.shown))
        return place

    def put_back(self, item: Item, place: int) -> None:
        """Undoes ``remove`` and shows the item."""
        self.items.insert(place, item)
        self.shown = place
