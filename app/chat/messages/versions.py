"""‹ 2/3 ›: switches between the versions of a prompt or an answer. Hidden if there is only one."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QWidget

from app.design.controls import FocusGroup, button, label
from app.design.layouts import row_of
from app.system.i18n import tr


class VersionSwitch(QWidget):
    """Two arrows and a label. ``choose`` is called with the index of the requested version."""

    def __init__(self, earlier: str, later: str, choose: Callable[[int], object]) -> None:
        super().__init__()
        self._shown = 0
        self.before = button("‹", earlier, clicked=lambda: choose(self._shown - 1))
        self.place = label("", "caption")
        self.after = button("›", later, clicked=lambda: choose(self._shown + 1))
        self.setLayout(row_of(self.before, self.place, self.after, spacing=4))
        for arrow in (self.before, self.after):
            arrow.setMinimumWidth(24)
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


def version_step(event: QKeyEvent, *, on_text: bool) -> int:
    """Returns how many versions a key goes on, or back below 0; 0 for other keys."""
    if event.matches(QKeySequence.StandardKey.Undo):
        return -1
    if event.matches(QKeySequence.StandardKey.Redo):
        return 1
    is_plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0) if on_text and is_plain else 0
