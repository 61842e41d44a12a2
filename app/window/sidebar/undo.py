"""A bar that names deleted conversations and offers undo for a while."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame

from app.design.controls import Elided, button
from app.design.layouts import row_of
from app.system.i18n import tr, trn
from app.system.timers import later

STAYS_MS = 10_000


class UndoBar(QFrame):
    """Emits ``undone(ids)``, the latest deletion first. Stays while hovered or focused."""

    undone = Signal(list)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("undo")
        self._deleted: list[tuple[list[int], str]] = []
        self.line = Elided("")
        self.button = button(tr("Undo"), tr("Undo the deletion"), tip=tr("Ctrl+Z"), clicked=self.undo)
        self.setLayout(row_of((self.line, 1), self.button, margins=(12, 4, 12, 4), spacing=8))
        self.timer = later(self, self._expire, STAYS_MS)
        self.shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Undo), self)
        self.shortcut.activated.connect(self.undo)
        self._show()

    def offer(self, ids: list[int], title: str) -> None:
        """Offers undo of a deletion; ``title`` is that of the conversation, if it is one."""
        said = trn("Deleted “{title}”", "Deleted {count} conversations", len(ids), title=title)
        self._deleted.append((ids, said))
        self._show()

    def drop(self, ids: Collection[int]) -> None:
        """Withdraws the offer for these conversations."""
        left = [deleted for deleted in self._deleted if not set(deleted[0]) & set(ids)]
        if left != self._deleted:
            self._deleted = left
            self._show()

    @Slot()
    def undo(self) -> None:
        """Undoes the latest deletion."""
        if self._deleted:
            ids, _said = self._deleted.pop()
            self._show()
            self.undone.emit(ids)

    def _show(self) -> None:
        if self._deleted:
            self.line.set_whole(self._deleted[-1][1])
            self.timer.start()
        else:
            self.timer.stop()
        self.shortcut.setEnabled(bool(self._deleted))
        self.setVisible(bool(self._deleted))
        if self._deleted:  # announced by screen readers without focus
            QAccessible.updateAccessibility(QAccessibleEvent(self.line, QAccessible.Event.Alert))

    @Slot()
    def _expire(self) -> None:
        if self.underMouse() or self.button.hasFocus():
            self.timer.start()
            return
        self._deleted.clear()
        self._show()
