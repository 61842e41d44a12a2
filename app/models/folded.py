"""One line for rows of models that few people look for; it opens on a click. Knows no models."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.design.controls import button, label
from app.design.layouts import boxed, column_of, row_of


class Folded(QWidget):
    """A button over ``rows``, which are hidden until it is pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = button("", role="plain")
        self.fold.setCheckable(True)
        self.fold.toggled.connect(self._show)
        self.rows: QVBoxLayout = column_of(spacing=8)
        self._box = boxed(self.rows)
        self._about = label("", "fact", wrap=True)
        self._title = ""
        heading = row_of(self.fold, (self._about, 1), spacing=16)
        self.setLayout(column_of(heading, self._box, margins=(0, 16, 0, 0), spacing=8))
        self._show()

    def say(self, title: str, about: str) -> None:
        """Shows what the rows are, and a line about them."""
        self._title = title
        self._about.setText(about)
        self._show()

    @Slot()
    def _show(self) -> None:
        is_open = self.fold.isChecked()
        self.fold.setText(f"{'▾' if is_open else '▸'} {self._title}")
        self.fold.setAccessibleName(self._title)
        self.fold.setAccessibleDescription(self._about.text())
        self._box.setVisible(is_open)
