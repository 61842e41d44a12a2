"""A run's figures under its answer: one line in plain words, and the technical ones behind a button."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.design.controls import button, label
from app.design.icons import set_icon
from app.design.tokens import Theme
from app.system.i18n import tr


class FiguresLine(QWidget):
    """The line of figures; ``show_figures`` updates it. The second line is shown while the button is checked."""

    toggled = Signal(bool)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.line = label("", "caption")
        self.line.setAccessibleName(tr("Progress"))
        self.line.setMinimumWidth(1)  # so that it does not widen a narrow column
        self.more = button("", tr("More figures"), tip=tr("Entropy, temperature, speed and seed"))
        self.more.setCheckable(True)
        self.details = label("", "caption", wrap=True, selectable=True)
        self.details.setAccessibleName(tr("More figures"))
        self.details.hide()
        self.set_theme(theme)
        first = QHBoxLayout()
        first.setSpacing(8)
        first.addWidget(self.line)
        first.addWidget(self.more)
        first.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(first)
        column.addWidget(self.details)
        self.more.toggled.connect(self.details.setVisible)
        self.more.toggled.connect(self.toggled)

    def set_theme(self, theme: Theme) -> None:
        """Draws the button's icon in a theme's colour."""
        set_icon(self.more, "information-outline", theme.faint_ink)

    def show_figures(self, line: str, details: str) -> None:
        """Shows a line and the technical figures; either may be empty."""
        self.line.setText(line)
        self.line.setVisible(bool(line))
        self.details.setText(details)
        self.more.setVisible(bool(details))
        self.details.setVisible(bool(details) and self.more.isChecked())

    def text(self) -> str:
        """Returns the line in plain words."""
        return self.line.text()
