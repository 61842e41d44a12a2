"""The widget of the Race page: the lanes, and below them tabs for a prompt, a batch and a tuning. Has no engine."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent

from app.design.controls import chain_tabs
from app.design.layouts import column_of
from app.design.tabbed_page import TabbedPage
from app.race.batch.view import BatchView
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.race.tuning.view import TuningView
from app.system.i18n import tr


class RacePage(TabbedPage):
    """The lanes above the tabs ``one``, ``batch`` and ``tuning``. A lane's fields lie over these; Esc closes them."""

    def __init__(self, lanes: LaneChooser) -> None:
        super().__init__("race", tr("Race"), tr("Parts of the page"))
        self.lanes, self.one, self.batch, self.tuning = lanes, OneRace(), BatchView(), TuningView()
        self.add_part("one", tr("One prompt"), self.one, self.one.prompt.field)
        self.add_part("batch", tr("Batch"), self.batch, self.batch.source.source)
        self.add_part("tuning", tr("Tuning"), self.tuning, self.tuning.use)
        self.setLayout(column_of(self.lanes, (self.tabs, 1), spacing=0))
        self.lanes.fields.setParent(self)
        self.lanes.fields.hide()
        chain_tabs(self.lanes.bar.add, self.lanes.editor.tab_stops())  # they were created after the tabs
        self.lanes.placed.connect(self._place_fields)

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
