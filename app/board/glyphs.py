"""Caches the fonts and laid-out texts of a board at one size. Knows neither a puzzle nor colours."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QStaticText, QTransform

from app.canvas.glyphs import glyph_of
from app.design.fonts import canvas_font

_LIMIT = 4096


class Face(NamedTuple):
    """A font's size in pixels, and its weight."""

    size: int
    bold: bool = False


class Drawn(NamedTuple):
    """A text and the point at its centre."""

    face: Face
    text: str
    x: float
    y: float
    ink: QColor


class BoardGlyphs:
    """A cache of fonts by face, and of texts laid out in each."""

    def __init__(self) -> None:
        self._base = canvas_font()
        self.font = lru_cache(_LIMIT)(self._font)
        self._layout = lru_cache(_LIMIT)(self._lay_out)

    def _font(self, face: Face) -> tuple[QFont, QFontMetricsF, float]:
        """Returns the font of a face, its metrics, and the height of a digit."""
        font = QFont(self._base)
        font.setPixelSize(max(face.size, 5))
        font.setWeight(QFont.Weight.Bold if face.bold else QFont.Weight.Normal)
        metrics = QFontMetricsF(font)
        return font, metrics, metrics.tightBoundingRect("0").height()

    def width(self, text: str, face: Face) -> float:
        return self._layout(text, face)[1]

    def elided(self, text: str, face: Face, width: float) -> str:
        """Returns the text, shortened to fit a width."""
        if len(text) == 1:
            return text
        metrics = self.font(face)[1]
        if metrics.horizontalAdvance(text) <= width:
            return text
        return metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)

    def paint(self, painter: QPainter, drawn: list[Drawn]) -> None:
        """Draws texts; those of one face should be adjacent, as setting a font is slow."""
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

    def _lay_out(self, text: str, face: Face) -> tuple[QStaticText, float, float]:
        """Returns a laid-out text, its width, and the distance from its top to the middle of a digit."""
        font, metrics, digit = self.font(face)
        layout = QStaticText(text)
        layout.setTextFormat(Qt.TextFormat.PlainText)
        layout.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
        layout.prepare(QTransform(), font)
        return layout, layout.size().width(), metrics.ascent() - digit / 2


@lru_cache(_LIMIT)
def visible(piece: str) -> str:
    """Returns the drawn form of a token: a sign for a line break or other white space, a dot for an end token."""
    glyph = glyph_of(piece)
    return "•" if glyph.kind == "end" else glyph.text
