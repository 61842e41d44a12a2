"""The search field over the list; a search starts after a short pause in typing."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit

from app.system.i18n import tr
from app.system.timers import later

REST_MS = 150


class SearchField(QLineEdit):
    """A search field. Emits ``searched(query)`` when the query changed, ``entered`` for Enter, ``left_down`` for
    Down."""

    searched = Signal(str)
    entered = Signal()
    left_down = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.query = ""  # the query emitted last
        self.setPlaceholderText(tr("Search"))
        self.setAccessibleName(tr("Search conversations"))
        self.setAccessibleDescription(tr("Searches titles and messages; Escape clears"))
        self.setMaxLength(200)
        self.setClearButtonEnabled(True)
        self._rest = later(self, self._search, REST_MS)
        self.textChanged.connect(self._changed)

    def event(self, event: QEvent) -> bool:
        # Escape is also the window's shortcut; while the field has text, it clears the field.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._clears(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._clears(event):
            self.clear()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._search()
            self.entered.emit()
        elif event.key() == Qt.Key.Key_Down:
            self._search()
            self.left_down.emit()
        else:
            super().keyPressEvent(event)

    def _clears(self, event: QKeyEvent) -> bool:
        return event.key() == Qt.Key.Key_Escape and bool(self.text())

    @Slot()
    def _changed(self) -> None:
        if self.text().strip():
            self._rest.start()
        else:
            self._search()

    @Slot()
    def _search(self) -> None:
        self._rest.stop()
        query = self.text().strip()
        if query != self.query:
            self.query = query
            self.searched.emit(query)
