"""The Race page: the lanes, and below them one prompt or a batch of them. Knows no engine."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from app.race.batch.view import BatchView
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.system.i18n import tr


class RacePage(QWidget):
    """``one`` and ``batch`` are its parts, a tab each."""

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
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.lanes)
        column.addWidget(self.tabs, 1)
        self.tabs.currentChanged.connect(self._give_focus)
        self.lanes.covers.connect(self.tabs.setHidden)
        self._give_focus()

    @Slot()
    def _give_focus(self) -> None:
        """The part in front has the page's keyboard."""
        self.setFocusProxy(self.tabs.currentWidget())

    def show_part(self, part: str) -> None:
        """Bring a part to the front."""
        self.tabs.setCurrentWidget(self._parts[part])

    @property
    def part(self) -> str:
        """The part on show."""
        return next(name for name, part in self._parts.items() if part is self.tabs.currentWidget())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.lanes.fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
