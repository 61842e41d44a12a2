"""A button that copies a text and confirms it for a moment, and a read-only box of code with such a button."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy

from app.design.controls import introduce
from app.design.fonts import TEXT_SMALL, canvas_font
from app.design.text_field import LONGEST_TEXT, PlainText
from app.system.i18n import tr
from app.system.timers import later

COPIED_MS = 2000
LINES = (4, 14)  # lines of a box, at least and at most; a longer text scrolls


class CopyButton(QPushButton):
    """A button that copies what ``text_of`` returns when it is pressed."""

    def __init__(self, name: str, text_of: Callable[[], str], role: str = "link") -> None:
        super().__init__(tr("Copy"))
        self._text_of = text_of
        introduce(self, name, tip=name, role=role)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._back = later(self, self._restore)
        self.clicked.connect(self._copy)

    def sizeHint(self) -> QSize:
        """Returns the size for the longer of the two texts, so that nothing moves when it changes."""
        size, metrics, flag = super().sizeHint(), self.fontMetrics(), Qt.TextFlag.TextShowMnemonic
        widest = max(metrics.size(flag, text).width() for text in (tr("Copy"), tr("Copied")))
        return size + QSize(widest - metrics.size(flag, self.text()).width(), 0)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text_of())
        self.setText(tr("Copied"))
        self._back.start(COPIED_MS)

    @Slot()
    def _restore(self) -> None:
        self.setText(tr("Copy"))


class CodeBox(PlainText):
    """A read-only box of code, as high as its text within bounds."""

    def __init__(self, name: str) -> None:
        super().__init__(readOnly=True, tabChangesFocus=True, lineWrapMode=PlainText.LineWrapMode.NoWrap)
        introduce(self, name, role="code")
        self.setFrameShape(QFrame.Shape.NoFrame)

    def show_code(self, text: str) -> None:
        """Shows a text; if it is unchanged, a selection in it stays."""
        if text[:LONGEST_TEXT] != self.raw():
            self.setPlainText(text[:LONGEST_TEXT])
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        font = canvas_font(TEXT_SMALL + 1)
        if self.document().defaultFont() != font:
            self.document().setDefaultFont(font)
        lines = min(max(self.blockCount(), LINES[0]), LINES[1])
        is_whole = self.blockCount() <= LINES[1]
        policies = Qt.ScrollBarPolicy.ScrollBarAlwaysOff, Qt.ScrollBarPolicy.ScrollBarAsNeeded
        self.setVerticalScrollBarPolicy(policies[0] if is_whole else policies[1])
        edges = 2 * round(self.document().documentMargin()) + 16 + self.horizontalScrollBar().sizeHint().height()
        height = lines * self.fontMetrics().lineSpacing() + edges
        if self.height() != height or self.minimumHeight() != height:
            self.setFixedHeight(height)
