"""A run's figures under its answer: one line in plain words, and the technical ones behind a button."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar, QWidget

from app.design.controls import button, label, show_line
from app.design.icons import set_icon
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr


class FiguresLine(QWidget):
    """The line of figures; ``show_figures`` updates it. The second line is shown while the button is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.line = label("", "caption", name=tr("Progress"))
        self.line.setMinimumWidth(1)  # so that it does not widen a narrow column
        self.more = button("", tr("More figures"), tip=tr("Entropy, temperature, speed and seed"), checkable=True)
        self.details = label("", "caption", wrap=True, selectable=True, name=tr("More figures"))
        self.details.hide()
        set_icon(self.more, "information-outline", "faint_ink")
        self.bar = QProgressBar(textVisible=False)
        self.bar.setAccessibleName(tr("Tokens of the prompt that are read"))
        self.bar.setProperty("role", "bar")
        self.bar.hide()
        first = row_of(self.line, self.more, STRETCH, spacing=8)
        self.setLayout(column_of(first, self.bar, self.details, spacing=4))
        self.more.toggled.connect(self.details.setVisible)

    def show_figures(self, line: str, details: str, read: tuple[int, int] | None = None) -> None:
        """Shows a line and the technical figures; either may be empty. ``read`` of all tokens of a prompt are a bar."""
        self.bar.setVisible(read is not None)
        if read is not None:
            self.bar.setRange(0, read[1])
            self.bar.setValue(read[0])
        show_line(self.line, line)
        self.details.setText(details)
        self.more.setVisible(bool(details))
        self.details.setVisible(bool(details) and self.more.isChecked())
