"""The widget of the Decisions page: one state, a table of states, and calibration. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QTabWidget, QWidget

from app.decisions.calibration.view import CalibrationView
from app.decisions.one.view import OneState
from app.decisions.table.view import DecisionTable
from app.design.layouts import column_of
from app.system.i18n import tr


class DecisionsPage(QWidget):
    """The tabs ``one``, ``table`` and ``calibration``."""

    go_asked = Signal()  # by Ctrl+Return, in any tab

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("decisions")
        self.setAccessibleName(tr("Decisions"))
        self.one = OneState()
        self.table = DecisionTable()
        self.calibration = CalibrationView()
        self._parts: dict[str, QWidget] = {"one": self.one, "table": self.table, "calibration": self.calibration}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tr("Parts of the page"))
        self.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for title, part in (
            (tr("One state"), self.one),
            (tr("Table"), self.table),
            (tr("Calibration"), self.calibration),
        ):
            self.tabs.addTab(part, title)
        self.setLayout(column_of(self.tabs, margins=(0, 4, 0, 0)))
        self.setFocusProxy(self.one.column.state)
        for key in ("Ctrl+Return", "Ctrl+Enter"):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self.go_asked)

    def show_part(self, part: str) -> None:
        """Switches to the tab "one", "table" or "calibration"."""
        self.tabs.setCurrentWidget(self._parts[part])

    @property
    def part(self) -> str:
        """The name of the current tab."""
        return next(name for name, part in self._parts.items() if part is self.tabs.currentWidget())

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
