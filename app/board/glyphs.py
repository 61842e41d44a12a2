"""Fonts and laid-out texts of a board, kept for its size. No puzzle, no colours."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QStaticText, QTransform

from app.canvas.glyphs import glyph_of
from app.design.fonts import canvas_font

_LIMIT = 4096


class Face(NamedTuple):
    """A size in pixels, and a weight."""

    size: int
    bold: bool = False


class Drawn(NamedTuple):
    """A text and the point around which it stands."""

    face: Face
    text: str
    x: float
    y: float
    ink: QColor


class BoardGlyphs:
    """Fonts by face, and each text laid out once for each."""

    def __init__(self) -> None:
        self._base = canvas_font()
        self._fonts: dict[Face, tuple[QFont, QFontMetricsF, float]] = {}
        self._layouts: dict[tuple[Face, str], tuple[QStaticText, float, float]] = {}

    def font(self, face: Face) -> tuple[QFont, QFontMetricsF, float]:
        """A font, its measures, and how high its digits are."""
        found = self._fonts.get(face)
        if found is None:
            font = QFont(self._base)
            font.setPixelSize(max(face.size, 5))
            font.setWeight(QFont.Weight.Bold if face.bold else QFont.Weight.Normal)
            metrics = QFontMetricsF(font)
            found = self._fonts[face] = font, metrics, metrics.tightBoundingRect("0").height()
        return found

    def width(self, text: str, face: Face) -> float:
        return self._layout(text, face)[1]

    def elided(self, text: str, face: Face, width: float) -> str:
        """The text, or as much of it as fits."""
        if len(text) == 1:
            return text
        metrics = self.font(face)[1]
        if metrics.horizontalAdvance(text) <= width:
            return text
        return metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)

    def paint(self, painter: QPainter, drawn: list[Drawn]) -> None:
        """Draw texts; those of one face should stand together, since setting a font is slow."""
        face: Face | None = None
        ink: QColor | None = None
        for item in drawn:
            if item.face != face:
                face = item.face
                painter.setFont(self.font(face)[0])
            if item.ink is not ink:
                ink = item.ink
                painter.setPen(ink)
            layout, width, top = self._layout(item.text, item.face)
            painter.drawStaticText(QPointF(item.x - width / 2, item.y - top), layout)

    def _layout(self, text: str, face: Face) -> tuple[QStaticText, float, float]:
        """A text, its width, and how far its top is above the middle of a digit."""
        found = self._layouts.get((face, text))
        if found is None:
            font, metrics, digit = self.font(face)
            made = QStaticText(text)
            made.setTextFormat(Qt.TextFormat.PlainText)
            made.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
            made.prepare(QTransform(), font)
            found = made, made.size().width(), metrics.ascent() - digit / 2
            if len(self._layouts) >= _LIMIT:
                self._layouts.clear()
            self._layouts[face, text] = found
        return found


@lru_cache(maxsize=4096)
def visible(piece: str) -> str:
    """How a token is drawn: a line break and other white space as a sign, an end token as a dot."""
    glyph = glyph_of(piece)
    return "•" if glyph.kind == "end" else glyph.text
