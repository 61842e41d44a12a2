"""The widget of the Decisions page: one text, a table of texts, and calibration. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut

from app.decisions.calibration.view import CalibrationView
from app.decisions.one.view import OneState
from app.decisions.table.view import DecisionTable
from app.design.controls import label
from app.design.layouts import column_of
from app.design.tabbed_page import TabbedPage
from app.system.i18n import tr


class DecisionsPage(TabbedPage):
    """The tabs ``one``, ``table`` and ``calibration``."""

    go_asked = Signal()  # by Ctrl+Return, in any tab

    def __init__(self) -> None:
        super().__init__("decisions", tr("Decisions"), tr("Parts of the page"))
        self.one, self.table, self.calibration = OneState(), DecisionTable(), CalibrationView()
        self.add_part("one", tr("One text"), self.one, self.one.column.state)
        self.add_part("table", tr("Table"), self.table, self.table.open)
        self.add_part("calibration", tr("Calibration"), self.calibration, self.calibration)
        purpose = tr("Ask questions about a text, and see how likely each answer is: yes or no, options, or a scale.")
        head = column_of(label(purpose, "caption", wrap=True), margins=(16, 8, 16, 0))
        self.setLayout(column_of(head, (self.tabs, 1), spacing=4))
        for key in ("Ctrl+Return", "Ctrl+Enter"):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self.go_asked)
