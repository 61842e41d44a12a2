"""Chips in rows: the files and pictures of a prompt, each with a button that removes it, and suggested prompts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.design.controls import button, chain_tabs, discard, flow_of, grow_with_width
from app.system.i18n import tr

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
        grow_with_width(self, QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.hide()

    def _place(self, chips: Sequence[QFrame], removes: Sequence[QPushButton]) -> None:
        """Shows these chips, of which some may have been shown before; each gets its button."""
        before, self._host = self._host, flow_of(*chips, gap=GAP)
        if before is not None:
            discard(before)
        for remove in removes:
            if remove not in self._removes:
                remove.clicked.connect(self._remove)
        self._removes = list(removes)
        self._layout.addWidget(self._host)
        for widget in (*chips, self._host):
            widget.show()  # a new parent hides what was shown
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


PADDING = 32  # pixels of padding and border of a chip, both sides


class SuggestionBar(QWidget):
    """Shows suggested prompts as chips; clicking one emits its prompt.

    A suggestion is the text of its chip and its prompt. ``after`` is the control before the chips in the Tab order.
    """

    picked = Signal(str)

    def __init__(self, after: QWidget | None = None) -> None:
        super().__init__(accessibleName=tr("Suggested prompts"))
        self._after = after
        self._host: QWidget | None = None
        self._suggestions: tuple[tuple[str, str], ...] = ()
        self.chips: list[QPushButton] = []
        grow_with_width(self, QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)

    @property
    def prompts(self) -> list[str]:
        return [prompt for _, prompt in self._suggestions]

    def offer(self, suggestions: Sequence[tuple[str, str]]) -> bool:
        """Replaces the chips; returns True if they changed."""
        if tuple(suggestions) == self._suggestions:
            return False
        if self._host is not None:
            self._layout.removeWidget(self._host)
            discard(self._host)
        self._suggestions = tuple(suggestions)
        self.chips = [
            button(said, tr("Ask: {prompt}", prompt=said), role="chip", clicked=partial(self.picked.emit, prompt))
            for said, prompt in self._suggestions
        ]
        self._host = flow_of(*self.chips, gap=GAP)
        self._layout.addWidget(self._host)
        if self._after is not None:
            chain_tabs(self._after, self.chips)
        self._fit()
        return True

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit()

    def _fit(self) -> None:
        for chip, (said, _) in zip(self.chips, self._suggestions, strict=True):
            room = self.width() - PADDING
            shown = chip.fontMetrics().elidedText(said, Qt.TextElideMode.ElideRight, room)
            chip.setText(shown)
            chip.setToolTip("" if shown == said else said)
