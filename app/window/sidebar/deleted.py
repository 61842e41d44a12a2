"""The deleted conversations, in place of the list: each can be restored, or deleted for good."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListWidget, QListWidgetItem, QWidget

from app.design.controls import button, flow_of, introduce, label
from app.design.layouts import STRETCH, column_of, row_of
from app.design.notice import ask
from app.library import Summary
from app.library.library import KEPT_DAYS, KEPT_SECONDS
from app.system.i18n import tr, trn
from app.window.sidebar.painting import shown_title

ID = Qt.ItemDataRole.UserRole


class DeletedList(QWidget):
    """Emits what is asked for the selected conversations, or for all; deleting for good is confirmed before."""

    restore_asked = Signal(list)  # of ids
    erase_asked = Signal(list)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.back = button(tr("‹ Conversations"), tr("Back to the conversations"), clicked=self.closed)
        self.list = introduce(
            QListWidget(),
            tr("Recently deleted"),
            tr("Enter restores, Delete deletes for good, Escape goes back"),
            id="deleted",
        )
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setTabKeyNavigation(False)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.restore = button(tr("Restore"), role="plain", clicked=self._restore)
        self.erase = button(tr("Delete for good…"), role="plain", clicked=self._ask)
        for text, slot in ((self.restore.text(), self._restore), (self.erase.text(), self._ask)):
            action = QAction(text, self.list)
            action.triggered.connect(slot)
            self.list.addAction(action)
        kept = tr("Kept for {days} days, then erased with their recorded runs.", days=KEPT_DAYS)
        texts = (
            row_of(self.back, STRETCH),
            label(tr("Recently deleted"), "title", wrap=True),
            label(kept, "caption", wrap=True),
        )
        below = flow_of(self.restore, self.erase)  # below each other where text is large
        self.setLayout(column_of(*texts, (self.list, 1), below, margins=(12, 12, 8, 12), spacing=8))

    def show_conversations(self, summaries: Sequence[Summary], now: float) -> None:
        """Replaces the rows; ``updated`` is the time of a deletion. The selection stays where it can."""
        rows = [(summary.id, _text(summary, now)) for summary in summaries]
        if rows == [(item.data(ID), item.text()) for item in self._items()]:
            return
        selected, row = self._selected(), self.list.currentRow()
        self.list.clear()
        for id, text in rows:
            item = QListWidgetItem(text, self.list)
            item.setData(ID, id)
            item.setToolTip(text.partition("\n")[0])
            item.setData(Qt.ItemDataRole.AccessibleTextRole, text.replace("\n", ", "))
        self.list.setCurrentRow(max(0, min(row, len(rows) - 1)))
        for item in self._items():
            if item.data(ID) in selected:
                item.setSelected(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Takes the keys that the list leaves."""
        match event.key():
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._restore()
            case Qt.Key.Key_Delete:
                self._ask()
            case Qt.Key.Key_Escape | Qt.Key.Key_Backspace:
                self.closed.emit()
            case _:
                super().keyPressEvent(event)

    def _items(self) -> list[QListWidgetItem]:
        return [self.list.item(row) for row in range(self.list.count())]

    def _selected(self) -> list[int]:
        return [item.data(ID) for item in self._items() if item.isSelected()]

    @Slot()
    def _restore(self) -> None:
        if selected := self._selected():
            self.restore_asked.emit(selected)

    @Slot()
    def _ask(self) -> None:
        if not (selected := self._selected()):
            return
        title = next(item.toolTip() for item in self._items() if item.isSelected())
        text = trn(
            "Delete “{title}” for good? Its recorded runs go with it, and neither can be brought back.",
            "Delete {count} conversations for good? Their recorded runs go with them, and nothing can be brought back.",
            len(selected),
            title=title,
        )
        self.question = ask(self, text, lambda: self.erase_asked.emit(selected))


def _text(summary: Summary, now: float) -> str:
    days = max(1, math.ceil((summary.updated + KEPT_SECONDS - now) / 86_400))
    return shown_title(summary) + "\n" + trn("{count} day left", "{count} days left", days)
