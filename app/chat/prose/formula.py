"""Draws formulas as objects in a QTextDocument, as vectors so that they are sharp at any scale."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextDocument,
    QTextFormat,
)

from app.chat.prose.typeset import DrawnFormula

if TYPE_CHECKING:
    from PySide6.QtSvg import QSvgRenderer

FORMULA = QTextFormat.ObjectTypes.UserObject.value + 1
WRITTEN = QTextFormat.Property.UserProperty.value + 1  # property: the formula's original text
_PLACE = WRITTEN + 1  # property: the index in the list of pictures
OBJECT = "\ufffc"


class Formulas(QPyTextObject):
    """Holds and draws the pictures of one document."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._pictures: list[DrawnFormula] = []
        self._least_ascent = QFontMetricsF(document.defaultFont()).ascent()
        document.documentLayout().registerHandler(FORMULA, self)

    def format(self, picture: DrawnFormula, written: str, font: QFont) -> QTextCharFormat:
        """Returns the format with which an ``OBJECT`` character is drawn as the picture."""
        self._pictures.append(picture)
        made = QTextCharFormat()
        made.setObjectType(FORMULA)
        made.setProperty(WRITTEN, written)
        made.setProperty(_PLACE, len(self._pictures) - 1)
        # Qt reserves only the font's descent below the line, so the font grows until it fits the picture.
        deep = QFont(font)
        while QFontMetricsF(deep).descent() < picture.descent:
            deep.setPixelSize(max(deep.pixelSize() + 1, math.ceil(deep.pixelSize() * 1.1)))
        made.setFont(deep)
        made.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
        return made

    def intrinsicSize(self, _document: QTextDocument, _position: int, format: QTextFormat) -> QSizeF:
        picture = self._pictures[int(format.property(_PLACE))]
        return QSizeF(picture.width, self._ascent(picture) + _descent(format))

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, _document: QTextDocument, _position: int, format: QTextFormat
    ) -> None:
        picture = self._pictures[int(format.property(_PLACE))]
        top = rect.top() + self._ascent(picture) - (picture.height - picture.descent)
        area = QRectF(rect.left(), top, picture.width, picture.height)
        _renderer(picture).render(painter, area)

    def _ascent(self, picture: DrawnFormula) -> float:
        """Returns a picture's ascent; at least that of letters, so that a line of formulas alone is aligned."""
        return max(picture.height - picture.descent, self._least_ascent)


def _descent(format: QTextFormat) -> float:
    return QFontMetricsF(format.toCharFormat().font()).descent()


@lru_cache(maxsize=256)
def _renderer(picture: DrawnFormula) -> QSvgRenderer:
    from PySide6.QtSvg import QSvgRenderer  # a separate library that most conversations do not need

    return QSvgRenderer(picture.svg)
