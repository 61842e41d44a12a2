"""Marks the gaps of a text while it is typed."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app.design import themes
from app.design.tokens import color
from engine.text.outline import spans


class GapMarks(QSyntaxHighlighter):
    """Gives the gaps of a document a ground of their own, in the colours of the theme."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._format = QTextCharFormat()
        self._restyle()
        themes.changed.connect(self._restyle)

    @Slot()
    def _restyle(self) -> None:
        theme = themes.current()
        self._format.setBackground(color(theme.selection))
        self._format.setForeground(color(theme.ink))
        self._format.setFontWeight(QFont.Weight.DemiBold)
        if not self.document().isEmpty():
            self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        if "[[" in text:
            for start, stop in spans(utf16(text)):
                self.setFormat(start, stop - start, self._format)


def utf16(text: str) -> str:
    """Returns a text as one character for each UTF-16 unit, the unit that Qt counts in."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(data[::2], data[1::2], strict=True))
