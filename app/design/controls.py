"""Small builders of named controls, so that every one has a role for the style sheet and a name for screen readers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSizePolicy, QWidget

Role = Literal["primary", "link", "chip", "plain"]


def button(text: str, name: str = "", *, role: Role = "link", tip: str = "") -> QPushButton:
    """A push button; ``name`` says more than ``text`` where the text alone is not enough."""
    made = QPushButton(text)
    made.setProperty("role", role)
    made.setAccessibleName(name or text)
    made.setToolTip(tip)
    made.setAccessibleDescription(tip)
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    made.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
    return made


def label(text: str = "", role: str = "", *, wrap: bool = False, selectable: bool = False) -> QLabel:
    """A label that never reads its text as markup."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("role", role)
    made.setWordWrap(wrap)
    if wrap:
        policy = made.sizePolicy()
        policy.setHorizontalPolicy(QSizePolicy.Policy.Ignored)
        policy.setHeightForWidth(True)
        made.setSizePolicy(policy)
    if selectable:
        made.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
    return made


def chain_tabs(first: QWidget, rest: Iterable[QWidget]) -> None:
    """Let Tab go from the first through the rest, which come into being later than what follows them."""
    for widget in rest:
        QWidget.setTabOrder(first, widget)
        first = widget


class Hairline(QFrame):
    """A line one device-independent pixel thick."""

    def __init__(self, orientation: Qt.Orientation = Qt.Orientation.Horizontal, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "hairline")
        self._horizontal = orientation == Qt.Orientation.Horizontal
        if self._horizontal:
            self.setFixedHeight(1)
        else:
            self.setFixedWidth(1)

    def sizeHint(self) -> QSize:
        return QSize(8, 1) if self._horizontal else QSize(1, 8)
