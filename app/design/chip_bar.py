"""Chips in rows, each with a button that removes it. Used for the files and the pictures of a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.design.controls import discard, flow_of

GAP = 8


class ChipBar(QWidget):
    """A bar of chips, hidden if there are none. A subclass shows its chips by ``_place`` and removes one in
    ``_drop``."""

    changed = Signal()  # chips were added or removed
    emptied = Signal()  # the last chip was removed by its button

    def __init__(self, name: str) -> None:
        super().__init__(accessibleName=name)
        self._host: QWidget | None = None
        self._removes: list[QPushButton] = []
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.hide()

    def _place(self, chips: Sequence[QFrame], removes: Sequence[QPushButton]) -> None:
        """Replaces all chips; each gets its button."""
        if self._host is not None:
            self._layout.removeWidget(self._host)
            discard(self._host)
        self._host = flow_of(*chips, gap=GAP)
        self._removes = list(removes)
        for remove in removes:
            remove.clicked.connect(self._remove)
        self._layout.addWidget(self._host)
        self.setVisible(bool(chips))

    def _drop(self, place: int) -> None:
        raise NotImplementedError

    @Slot()
    def _remove(self) -> None:
        sender = self.sender()
        place = next(place for place, made in enumerate(self._removes) if made is sender)
        self._drop(place)
        if self._removes:
            self._removes[min(place, len(self._removes) - 1)].setFocus()
        else:
            self.emptied.emit()
