"""The drawn form of tokens, with signs for invisible characters, and a cache of laid-out texts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF, QStaticText, QTransform

from app.design.fonts import caption_font

MAX_LAYOUTS = 8192
MAX_CELL_CHARACTERS = 10
"""Longer pieces are elided."""
_ENDS = {"<eos>", "<pad>", "<turn|>", "</s>", "<|endoftext|>", "<|im_end|>", "<end_of_turn>", "<tool_response|>"}
_SIGNS = {"\n": "↲", "\r": "␍", "\t": "⇥", " ": "·", "\u00a0": "·"}
_CONTROL = "◇"
_AS_WIDE = str.maketrans(dict.fromkeys(_SIGNS.values(), "0"))


class Glyph(NamedTuple):
    """The drawn form of a token: text, dim text (a sign for an invisible character), or a dot (an end token)."""

    text: str
    kind: Literal["text", "sign", "end"]


def looks_special(piece: str) -> bool:
    """True if a piece looks like a control token; a guess, used without a tokenizer."""
    return piece in _ENDS or piece.startswith("<|") or (piece.endswith("|>") and piece.startswith("<"))


def glyph_of(piece: str, special: bool | None = None) -> Glyph:
    """Returns what is drawn for a piece of text. With ``special`` None a control token is guessed from its text."""
    if piece in _ENDS:
        return Glyph("", "end")
    if special or (special is None and (looks_special(piece) or piece in ("<bos>", "<unk>", "<mask>"))):
        return Glyph(_CONTROL, "sign")
    text = "".join(visible(character) for character in piece) or _CONTROL
    unseen = all(character in _SIGNS or text == _CONTROL for character in piece)
    if unicodedata.combining(text[0]):
        text = "◌" + text  # a combining mark needs a base character
    return Glyph(text, "sign" if unseen else "text")


def visible(character: str) -> str:
    """Returns the character, or a sign that stands for one that draws nothing."""
    if character in _SIGNS:
        return _SIGNS[character]
    # Control, format, surrogate, private and unassigned characters draw nothing, or change the text's direction.
    return _CONTROL if unicodedata.category(character)[0] == "C" else character


class CellGlyphs:
    """Fonts of the canvas, and a cache of the texts laid out in them."""

    def __init__(self, font: QFont) -> None:
        self.font = font
        self.small = QFont(font)
        self.small.setPixelSize(max(8, round(font.pixelSize() * 0.78)))
        self.bold = QFont(font)
        self.bold.setBold(True)
        self.label = caption_font()
        self.faces = {"plain": self.font, "small": self.small, "bold": self.bold, "label": self.label}
        self._metrics = {name: QFontMetricsF(face) for name, face in self.faces.items()}
        self.layout = lru_cache(MAX_LAYOUTS)(self._lay_out)
        self.width = lru_cache(4 * MAX_LAYOUTS)(self._metrics["plain"].horizontalAdvance)  # of a text, in pixels

    @property
    def character_width(self) -> float:
        return self._metrics["plain"].horizontalAdvance("0")

    def cell_height(self) -> int:
        return 4 * math.ceil((self._metrics["plain"].height() + 8) / 4)

    def cell_width(self, texts: Sequence[str], least: int = 0) -> int:
        """Returns the width in pixels that fits the longest text, in whole characters up to ``MAX_CELL_CHARACTERS``."""
        unit = self.character_width
        # Signs come from a wider typeface but are drawn small, so they count as digits.
        widest = max((self.width(text.translate(_AS_WIDE)) for text in texts), default=unit)
        characters = min(max(1, math.ceil(widest / unit - 0.25)), MAX_CELL_CHARACTERS)
        return max(least, math.ceil(characters * unit) + 8)

    def is_narrow(self, cell_width: int) -> bool:
        """True if a cell of this width holds one character, which is then centred."""
        return cell_width < 2 * self.character_width + 8

    def label_width(self, text: str) -> int:
        return math.ceil(self._metrics["label"].horizontalAdvance(text))

    def _lay_out(self, text: str, face: str, width: int) -> tuple[QStaticText, float, float]:
        """Returns a text laid out and elided to ``width``, its width, and its ascent (top to baseline), in pixels."""
        metrics = self._metrics[face]
        shown = text
        if len(text) > 1 and metrics.horizontalAdvance(text) > width:
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
        layout = QStaticText(shown)
        layout.setTextFormat(Qt.TextFormat.PlainText)
        layout.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
        layout.prepare(QTransform(), self.faces[face])
        return layout, layout.size().width(), metrics.ascent()

    def baseline(self, cell_height: int) -> float:
        """Returns the distance of the text's baseline from the top of a cell, in pixels."""
        metrics = self._metrics["plain"]
        return round((cell_height - metrics.height()) / 2 + metrics.ascent())
