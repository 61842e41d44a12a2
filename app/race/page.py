"""The widget of the Race page: the lanes, and below them the tabs for one prompt and for a batch. Has no engine."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QResizeEvent

from app.design.layouts import column_of
from app.design.tabbed_page import TabbedPage
from app.race.batch.view import BatchView
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.system.i18n import tr


class RacePage(TabbedPage):
    """The lanes above two tabs, ``one`` and ``batch``."""

    def __init__(self, lanes: LaneChooser) -> None:
        super().__init__("race", tr("Race"), tr("Parts of the page"))
        self.lanes, self.one, self.batch = lanes, OneRace(), BatchView()
        self.add_part("one", tr("One prompt"), self.one)
        self.add_part("batch", tr("Batch"), self.batch)
        self.setLayout(column_of(self.lanes, (self.tabs, 1), spacing=0))
        self.tabs.currentChanged.connect(self._give_focus)
        self.lanes.covers.connect(self.tabs.setHidden)
        self._give_focus()

    @Slot()
    def _give_focus(self) -> None:
        """Makes the current tab the focus proxy of the page."""
        self.setFocusProxy(self.tabs.currentWidget())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.lanes.fit()
