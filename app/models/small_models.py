"""One line for the small models that come with the app; it opens on a click. Knows no models."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.design.controls import button
from app.design.layouts import boxed, column_of
from app.models.words import small_title


class SmallModels(QWidget):
    """A button over ``rows``, which are hidden until it is pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = button("", role="plain")
        self.fold.setCheckable(True)
        self.fold.toggled.connect(self._show)
        self.rows: QVBoxLayout = column_of(spacing=8)
        self._box = boxed(self.rows)
        self._count, self._is_forced, self._status = 0, False, ""
        self.setLayout(column_of(self.fold, self._box, margins=(0, 16, 0, 0), spacing=8))
        self._show()

    def say(self, count: int, status: str) -> None:
        """Shows how many models there are, and which of them is loaded."""
        self._count, self._status = count, status
        self._show()

    def force(self, is_open: bool) -> None:
        """Opens the list while something is searched, without pressing the button."""
        self._is_forced = is_open
        self._show()

    @Slot()
    def _show(self) -> None:
        is_open = self.fold.isChecked() or self._is_forced
        said = " · ".join(filter(None, (small_title(self._count), self._status)))
        self.fold.setText(f"{'▾' if is_open else '▸'} {said}")
        self.fold.setAccessibleName(said)
        self._box.setVisible(is_open)
