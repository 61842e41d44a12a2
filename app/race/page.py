"""The widget of the Race page: the lanes, and below them the prompt and its race. Has no engine."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.design.controls import chain_tabs
from app.design.layouts import column_of
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.system.i18n import tr


class RacePage(QWidget):
    """The lanes above a race. A lane's fields lie over it; Esc closes them."""

    def __init__(self, lanes: LaneChooser) -> None:
        super().__init__()
        self.setObjectName("race")
        self.setAccessibleName(tr("Race"))
        self.lanes, self.one = lanes, OneRace()
        self.setLayout(column_of(self.lanes, (self.one, 1), spacing=0))
        self.lanes.fields.setParent(self)
        self.lanes.fields.hide()
        chain_tabs(self.lanes.bar.add, self.lanes.editor.tab_stops())  # they were created after the race
        self.lanes.placed.connect(self._place_fields)

    def enter(self) -> None:
        """Moves the keyboard focus to the prompt."""
        self.one.prompt.field.setFocus()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

    @Slot()
    def _place_fields(self) -> None:
        if self.lanes.is_open:
            self.layout().activate()  # type: ignore[union-attr]
            self.lanes.place_fields(self.height())

    def event(self, event: QEvent) -> bool:
        """Takes Esc for open fields, which else would be the window's shortcut that stops a run."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._closes(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._closes(event):
            self.lanes.close_fields()
        else:
            super().keyPressEvent(event)

    def _closes(self, event: QKeyEvent) -> bool:
        return event.key() == Qt.Key.Key_Escape and self.lanes.is_open

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_fields()
