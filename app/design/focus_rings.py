"""Draws a ring around the focused control for people who use the keyboard, and lets Enter press a focused button.

A click marks only text fields, which always show their focus.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget
from shiboken6 import isValid

from app.design.controls import restyle

_PRESSES = (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick, QEvent.Type.TouchBegin)


def is_ringed(widget: QWidget) -> bool:
    """True if a widget that draws its own ring should draw it."""
    return bool(widget.property("ring"))


class FocusRings(QObject):
    """Gives the focused widget the property ``ring``, for the style sheet, unless a pointer brought the focus there."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._by_keys = True  # True if the keyboard was used last, not a pointer
        QApplication.instance().focusChanged.connect(self._moved)  # type: ignore[union-attr]

    @Slot(QWidget, QWidget)
    def _moved(self, before: QWidget | None, now: QWidget | None) -> None:
        if before is not None and is_ringed(before):
            restyle(before, "ring", False)
        if now is None:
            return
        handle = now.window().windowHandle()
        if handle is not None and isValid(handle):  # a popup gets a new handle each time
            handle.installEventFilter(self)  # if it is installed already, it only moves to the front
        if QGuiApplication.mouseButtons():
            self._by_keys = False
        if self._by_keys:
            restyle(now, "ring", True)

    def eventFilter(self, _window: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            self._by_keys = True
            return self._presses(event)
        elif event.type() in _PRESSES:
            self._by_keys = False
        return False

    def _presses(self, event: QKeyEvent) -> bool:
        """Presses the focused button, for Enter without other keys. Without this only Space would, on some systems."""
        focused = QApplication.focusWidget()
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat()
        if not is_enter or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return False
        if not isinstance(focused, QPushButton | QToolButton) or QApplication.activePopupWidget() is not None:
            return False
        focused.click()
        return True
