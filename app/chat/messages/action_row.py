"""The buttons of a message, visible while the pointer is over it or one of them has the focus."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.design.controls import FlowLayout

_FOCUS = (QEvent.Type.FocusIn, QEvent.Type.FocusOut)


class ActionRow(QWidget):
    """Buttons that keep their space and their place in the tab order while they are invisible.

    They appear while the pointer is over ``message``; ``keep`` shows them at all times.
    """

    def __init__(self, message: QWidget, *buttons: QPushButton, wraps: bool = True) -> None:
        super().__init__()
        self._message, self._buttons = message, buttons
        self._is_pointed = self._is_kept = False
        row = FlowLayout(self, 16) if wraps else QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        for button in buttons:
            row.addWidget(button)
            button.installEventFilter(self)
        message.installEventFilter(self)

    @property
    def is_seen(self) -> bool:
        """True if the buttons are painted."""
        return self._is_kept or self._is_pointed or any(button.hasFocus() for button in self._buttons)

    def keep(self, kept: bool) -> None:
        """Sets whether the buttons are visible without the pointer."""
        if kept != self._is_kept:
            self._is_kept = kept
            self._repaint()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if watched is self._message:
            if kind in (QEvent.Type.Enter, QEvent.Type.Leave):
                self._is_pointed = kind == QEvent.Type.Enter
                self._repaint()
        elif kind in _FOCUS:
            self._repaint()
        return kind == QEvent.Type.Paint and watched is not self._message and not self.is_seen

    def _repaint(self) -> None:
        for button in self._buttons:
            button.update()
