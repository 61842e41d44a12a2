"""The buttons of a message, visible while the pointer is over it or one of them has the focus."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.design.controls import FlowLayout

_FOCUS = (QEvent.Type.FocusIn, QEvent.Type.FocusOut)


class ActionRow(QWidget):
    """Buttons that keep their space and their place in the tab order while they are invisible.

    They appear while the pointer is over ``message``; ``keep`` shows them at all times. Widgets given by ``also``
    appear and disappear with them.
    """

    def __init__(
        self, message: QWidget, *buttons: QPushButton, wraps: bool = True, also: Sequence[QWidget] = ()
    ) -> None:
        super().__init__()
        self._message = message
        self._controls = [*buttons, *(part for widget in also for part in _parts(widget))]
        self._is_pointed = self._is_kept = False
        row = FlowLayout(self, 16) if wraps else QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        for button in buttons:
            row.addWidget(button)
        for control in self._controls:
            control.installEventFilter(self)
        message.installEventFilter(self)

    @property
    def is_seen(self) -> bool:
        """True if the buttons are painted."""
        return self._is_kept or self._is_pointed or any(control.hasFocus() for control in self._controls)

    def keep(self, kept: bool) -> None:
        """Sets whether all are visible without the pointer."""
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
        for control in self._controls:
            control.update()


def _parts(widget: QWidget) -> list[QWidget]:
    """Returns a widget and all that is painted in its window, without the lists that open from it."""
    return [widget, *(part for part in widget.findChildren(QWidget) if part.window() is widget.window())]
