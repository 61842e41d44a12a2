"""The first thing on the models page: what this computer is, and the row of the model that suits it best."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.design.controls import label
from app.design.layouts import column_of
from app.system.i18n import tr


class Hero(QWidget):
    """Shows sentences about the computer; ``rows`` takes the row of the recommended model."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("For this machine"))
        self.title = label(tr("For this machine"), "lead")
        self.machine = label(tr("Looking at this computer…"), "fact", wrap=True, selectable=True)
        self.machine.setAccessibleName(tr("This computer"))
        self.note = label("", "setting", wrap=True, selectable=True)
        self.note.setAccessibleName(tr("About its graphics card"))
        self.note.hide()
        self.rows: QVBoxLayout = column_of()
        parts = self.title, self.machine, self.note, self.rows
        self.setLayout(column_of(*parts, margins=(0, 8, 0, 0), spacing=8))

    def describe(self, machine: str, note: str) -> None:
        """Shows what this computer is, and a sentence about its card."""
        self.machine.setText(machine)
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self.setAccessibleDescription(" ".join(filter(None, (machine, note))))
