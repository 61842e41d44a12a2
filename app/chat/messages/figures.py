"""A run's figures under its answer: one line in plain words, and behind a sign those for people from the field."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.design.controls import button, label
from app.design.icons import set_icon
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr


class FiguresLine(QWidget):
    """``show_figures`` after each change; the second line shows while the sign is pressed."""

    toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.line = label("", "caption")
        self.line.setAccessibleName(tr("Progress"))
        self.line.setMinimumWidth(1)  # a narrow column is not made wider
        self.more = button("", tr("More figures"), tip=tr("Entropy, temperature, speed and seed"))
        self.more.setCheckable(True)
        self.details = label("", "caption", wrap=True, selectable=True)
        self.details.setAccessibleName(tr("More figures"))
        self.details.hide()
        set_icon(self.more, "information-outline", "faint_ink")
        first = row_of(self.line, self.more, STRETCH, spacing=8)
        self.setLayout(column_of(first, self.details, spacing=2))
        self.more.toggled.connect(self.details.setVisible)
        self.more.toggled.connect(self.toggled)

    def show_figures(self, line: str, details: str) -> None:
        """Show a line, and what there is to say beyond it; empty if nothing."""
        self.line.setText(line)
        self.line.setVisible(bool(line))
        self.details.setText(details)
        self.more.setVisible(bool(details))
        self.details.setVisible(bool(details) and self.more.isChecked())

    def text(self) -> str:
        """The line in plain words."""
        return self.line.text()
