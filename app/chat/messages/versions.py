"""‹ 2/3 ›: switches between the versions of a prompt or an answer. Hidden if there is only one."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from app.design.controls import FocusGroup, button, label
from app.design.layouts import row_of
from app.system.i18n import tr


class VersionSwitch(QWidget):
    """Two arrows and a label. ``choose`` is called with the index of the requested version."""

    def __init__(self, earlier: str, later: str, choose: Callable[[int], object]) -> None:
        super().__init__()
        self._shown = 0
        self.before = button("‹", earlier)
        self.place = label("", "caption")
        self.after = button("›", later)
        self.setLayout(row_of(self.before, self.place, self.after, spacing=4))
        for arrow in (self.before, self.after):
            arrow.setMinimumWidth(24)
        self.before.clicked.connect(lambda: choose(self._shown - 1))
        self.after.clicked.connect(lambda: choose(self._shown + 1))
        self._focus = FocusGroup(self.before, self.after)
        self.hide()

    def show_versions(self, shown: int, versions: int, *, can_switch: bool) -> None:
        """Shows the index of the shown version, counted from 0, and the number of versions."""
        self._shown = shown
        self.place.setText(f"{shown + 1}/{versions}")
        self.place.setAccessibleName(tr("Version {shown} of {versions}", shown=shown + 1, versions=versions))
        with self._focus:
            self.before.setEnabled(can_switch and shown > 0)
            self.after.setEnabled(can_switch and shown < versions - 1)
            self.setVisible(versions > 1)
