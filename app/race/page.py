"""The Race page: the lanes, and below them one prompt or a batch of them. Knows no engine."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from app.design.tokens import DARKROOM, Theme
from app.race.lanes.chooser import LaneChooser
from app.race.one.view import OneRace
from app.system.i18n import tr


class RacePage(QWidget):
    """``one`` is a part, a tab as each; with one part alone there are no tabs to be seen."""

    def __init__(
        self,
        lanes: LaneChooser,
        theme: Theme = DARKROOM,
        reduced_motion: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("race")
        self.setAccessibleName(tr("Race"))
        self.lanes, self.one = lanes, OneRace()
        self._parts: dict[str, QWidget] = {"one": self.one}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setTabBarAutoHide(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tr("Parts of the page"))
        self.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for title, part in ((tr("One prompt"), self.one),):
            self.tabs.addTab(part, title)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.lanes)
        column.addWidget(self.tabs, 1)
        self.setFocusProxy(self.one.prompt)
        self.set_theme(theme)
        self.set_reduced_motion(reduced_motion)

    def show_part(self, part: str) -> None:
        """Bring a part to the front."""
        self.tabs.setCurrentWidget(self._parts[part])

    @property
    def part(self) -> str:
        """The part on show."""
        return next(name for name, part in self._parts.items() if part is self.tabs.currentWidget())

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme; the style sheet is the window's."""
        for part in (self.one,):
            part.set_theme(theme)

    def set_reduced_motion(self, reduced: bool) -> None:
        """Whether nothing moves by itself."""
        for part in (self.one,):
            part.set_reduced_motion(reduced)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
