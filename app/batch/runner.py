"""Takes items from an iterator, each made in a thread while the one before is used."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background, Receiver

Item = TypeVar("Item")


class Ahead(QObject, Generic[Item]):
    """Goes through one iterator at a time. The iterator is used in a thread."""

    ready = Signal()  # ``take`` has the next item, or None after the last one

    def __init__(self, parent: QObject, ready: Receiver, refused: Receiver) -> None:
        """Connects two receivers: of ``ready``, and of the sentence of a SafelightError that the iterator raised."""
        super().__init__(parent)
        self.ready.connect(ready)
        self._items: Iterator[Item] = iter(())
        self._made: Item | None = None
        self.is_ready = False  # True if ``take`` can be called
        self._making = Background(self, self._show, refused)

    def begin(self, items: Iterator[Item]) -> None:
        """Begins to make the first item of an iterator."""
        self._items = items
        self._make()

    def drop(self) -> None:
        """Makes no further item."""
        self.is_ready = False
        self._making.drop()

    def take(self) -> Item | None:
        """Returns the next item, and begins to make the one behind it; None after the last one."""
        made = self._made
        self.drop()
        if made is not None:
            self._make()
        return made

    def _make(self) -> None:
        self.is_ready = False
        self._making.ask(functools.partial(next, self._items, None))

    @Slot(object)
    def _show(self, made: Item | None) -> None:
        self._made, self.is_ready = made, True
        self.ready.emit()
