"""The widget of the Decisions page: one text and its questions. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from app.decisions.one.view import OneState
from app.design.controls import label
from app.design.layouts import column_of
from app.system.i18n import tr


class DecisionsPage(QWidget):
    """The page."""

    go_asked = Signal()  # by Ctrl+Return

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("decisions")
        self.setAccessibleName(tr("Decisions"))
        self.one = OneState()
        purpose = tr("Ask questions about a text, and see how likely each answer is: yes or no, options, or a scale.")
        head = column_of(label(purpose, "caption", wrap=True), margins=(16, 8, 16, 0))
        self.setLayout(column_of(head, (self.one, 1), spacing=4))
        for key in ("Ctrl+Return", "Ctrl+Enter"):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self.go_asked)

    def enter(self) -> None:
        """Moves the keyboard focus to the text."""
        self.one.column.state.setFocus()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
