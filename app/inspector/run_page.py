"""The base of pages of runs to choose from: a scrolling column in the middle, with a limited width."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from app.design.fonts import px

CONTENT_WIDTH = 960  # pixels at 100 %


class RunPage(QScrollArea):
    """A scrolling page. Subclasses fill ``column``."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = QWidget()
        self.column = QVBoxLayout(self._content)
        self.column.setSpacing(12)
        inside = QWidget()
        around = QGridLayout(inside)
        around.setContentsMargins(0, 0, 0, 0)
        around.setColumnStretch(0, 1)
        around.setColumnStretch(1, 1000)
        around.setColumnStretch(2, 1)
        around.addWidget(self._content, 0, 1)
        self._fit_width()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(inside)

    def _fit_width(self) -> None:
        self._content.setMaximumWidth(px(CONTENT_WIDTH))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self._fit_width()
