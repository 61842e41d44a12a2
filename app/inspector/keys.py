"""The inspector's keys, wherever in it the keyboard is, except where a field needs them. Knows deeds by id only."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QTabBar, QWidget

_PLAIN = {
    Qt.Key.Key_Space: "play",
    Qt.Key.Key_J: "reverse",
    Qt.Key.Key_K: "pause",
    Qt.Key.Key_L: "forward",
    Qt.Key.Key_O: "loop",
    Qt.Key.Key_Left: "back",
    Qt.Key.Key_Right: "on",
    Qt.Key.Key_Home: "first",
    Qt.Key.Key_End: "last",
}
_SHIFTED = {Qt.Key.Key_Left: "change-back", Qt.Key.Key_Right: "change-on"}


def deed_of(event: QKeyEvent) -> str | None:
    """What a key does; None where it does nothing here."""
    modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    key = Qt.Key(event.key())
    if modifiers == Qt.KeyboardModifier.NoModifier:
        return _PLAIN.get(key)
    return _SHIFTED.get(key) if modifiers == Qt.KeyboardModifier.ShiftModifier else None


class Keys(QObject):
    """Takes the keys from the buttons in a widget, which would go from one to another with the arrows.

    Space is left to a button that has the keyboard, the arrows to a row of tabs.
    """

    def __init__(self, run: Callable[[str], None], parent: QObject) -> None:
        super().__init__(parent)
        self._run = run

    def watch(self, widget: QWidget) -> None:
        """Look after a widget's buttons."""
        for made in widget.findChildren(QAbstractButton):
            if not isinstance(made.parent(), QTabBar):
                made.installEventFilter(self)

    def press(self, event: QKeyEvent) -> bool:
        """Do what a key says; False where it says nothing. A key held down goes on stepping, nothing else."""
        deed = deed_of(event)
        if deed is None:
            return False
        if not event.isAutoRepeat() or deed in ("back", "on", "change-back", "change-on"):
            self._run(deed)
        return True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return event.key() != Qt.Key.Key_Space and self.press(event)
        return super().eventFilter(watched, event)
