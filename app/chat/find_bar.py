"""Finds words in the shown conversation: a line above it, and the turns that have all of them, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit

from app.design.controls import button, introduce, label
from app.design.layouts import row_of
from app.library.search import spans, terms_of
from app.state.chat.conversation import Turn
from app.system.i18n import tr


class FindBar(QFrame):
    """Hidden until ``open``. Enter and Shift+Enter go from hit to hit, Escape closes it."""

    went = Signal(object, str)  # to a Turn, and the words; None if no turn has them
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Find in this conversation"), id="find-bar")
        self._turns: Sequence[Turn] = ()
        self._hits: list[Turn] = []
        self._place = -1
        self.edit = introduce(QLineEdit(maxLength=200), tr("Words to find"), tr("Enter goes on, Escape closes"))
        self.edit.setPlaceholderText(tr("Find in this conversation"))
        self.edit.textChanged.connect(self._search)
        self.count = label("", "caption")
        self.before = button("↑", tr("Hit before"), tip=tr("Shift+Enter"), clicked=lambda: self.step(-1))
        self.after = button("↓", tr("Next hit"), tip=tr("Enter"), clicked=lambda: self.step(1))
        self.close_button = button("×", tr("Close"), tip=tr("Esc"), clicked=self.leave)
        for control in (self.before, self.after, self.close_button):
            control.setMinimumWidth(24)
        parts = (self.edit, 1), self.count, self.before, self.after, self.close_button
        self.setLayout(row_of(*parts, margins=(12, 8, 12, 8), spacing=8))
        self.hide()

    def open(self, turns: Sequence[Turn]) -> None:
        """Shows the line for these turns, with the words of last time selected."""
        self._turns = turns
        self.show()
        self.edit.setFocus()
        self.edit.selectAll()
        self._search()

    def set_turns(self, turns: Sequence[Turn]) -> None:
        """Follows a changed conversation; the place stays where it can."""
        self._turns = turns
        if self.isVisible():
            here = self._hits[self._place] if self._hits else None
            self._find()
            self._place = self._hits.index(here) if here in self._hits else 0
            self._show()

    @Slot()
    def leave(self) -> None:
        if self.isVisible():
            self.hide()
            self.went.emit(None, "")
            self.closed.emit()

    def step(self, by: int) -> None:
        """Goes to the next hit, or to the one before; behind the last comes the first."""
        if self._hits:
            self._place = (self._place + by) % len(self._hits)
            self._show()
            self.went.emit(self._hits[self._place], self.edit.text())

    @Slot()
    def _search(self) -> None:
        self._find()
        self._place = len(self._hits) - 1  # the latest
        self._show()
        hit = self._hits[-1] if self._hits else None
        self.went.emit(hit, self.edit.text())

    def _find(self) -> None:
        terms = terms_of(self.edit.text())
        texts = ((turn, f"{turn.prompt}\n{turn.answer.text}") for turn in self._turns) if terms else ()
        self._hits = [turn for turn, text in texts if all(spans(text, [term]) for term in terms)]

    def _show(self) -> None:
        none = tr("Not found") if self.edit.text().strip() else ""
        numbers = {"place": f"{self._place + 1:,}", "count": f"{len(self._hits):,}"}
        self.count.setText(tr("{place} of {count}", **numbers) if self._hits else none)
        for control in (self.before, self.after):
            control.setEnabled(len(self._hits) > 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.leave()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        else:
            super().keyPressEvent(event)
