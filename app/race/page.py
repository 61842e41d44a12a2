"""The widget of the Race page: the lanes, and below them the tabs for one prompt and for a batch. Has no engine."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTabWidget, QWidget

from app.design.layouts import column_of
from app.race.batch.view import BatchView
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.system.i18n import tr


class RacePage(QWidget):
    """The lanes above two tabs, ``one`` and ``batch``."""

    def __init__(self, lanes: LaneChooser, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("race")
        self.setAccessibleName(tr("Race"))
        self.lanes, self.one, self.batch = lanes, OneRace(), BatchView()
        self._parts: dict[str, QWidget] = {"one": self.one, "batch": self.batch}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tr("Parts of the page"))
        self.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for title, part in ((tr("One prompt"), self.one), (tr("Batch"), self.batch)):
            self.tabs.addTab(part, title)
        self.setLayout(column_of(self.lanes, (self.tabs, 1), spacing=0))
        self.tabs.currentChanged.connect(self._give_focus)
        self.lanes.covers.connect(self.tabs.setHidden)
        self._give_focus()

    @Slot()
    def _give_focus(self) -> None:
        """Makes the current tab the focus proxy of the page."""
        self.setFocusProxy(self.tabs.currentWidget())

    def show_part(self, part: str) -> None:
        """Switches to the tab "one" or "batch"."""
        self.tabs.setCurrentWidget(self._parts[part])

    @property
    def part(self) -> str:
        """The name of the current tab."""
        return next(name for name, part in self._parts.items() if part is self.tabs.currentWidget())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.lanes.fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
