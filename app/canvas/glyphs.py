"""How a token is drawn: signs for what cannot be seen, and the laid-out texts of a canvas, kept for reuse."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF, QStaticText, QTransform

from app.design.fonts import TEXT_SMALL, px, ui_font

MOST_CHARACTERS = 10
"""Longer pieces are elided."""
_ENDS = {"<eos>", "<pad>", "<turn|>", "</s>", "<|endoftext|>", "<|im_end|>", "<end_of_turn>", "<tool_response|>"}
_SIGNS = {"\n": "↲", "\r": "␍", "\t": "⇥", " ": "·", "\u00a0": "·"}
_CONTROL = "◇"
_AS_WIDE = str.maketrans(dict.fromkeys(_SIGNS.values(), "0"))


class Glyph(NamedTuple):
    """How a token is drawn: as text, as dim text (a sign that stands for something unseen), or as a dot (an end)."""

    text: str
    kind: Literal["text", "sign", "end"]


def looks_special(piece: str) -> bool:
    """Whether a piece is written like a control token; a guess, for where there is no tokenizer to ask."""
    return piece in _ENDS or piece.startswith("<|") or (piece.endswith("|>") and piece.startswith("<"))


def glyph_of(piece: str, special: bool | None = None) -> Glyph:
    """What to draw for a piece of text. ``special`` None guesses from how it is written."""
    if piece in _ENDS:
        return Glyph("", "end")
    if special or (special is None and (looks_special(piece) or piece in ("<bos>", "<unk>", "<mask>"))):
        return Glyph(_CONTROL, "sign")
    text = "".join(visible(character) for character in piece) or _CONTROL
    unseen = all(character in _SIGNS or text == _CONTROL for character in piece)
    if unicodedata.combining(text[0]):
        text = "◌" + text  # a mark needs something to stand on
    return Glyph(text, "sign" if unseen else "text")


def visible(character: str) -> str:
    """A character, or a sign that stands for one that draws nothing."""
    if character in _SIGNS:
        return _SIGNS[character]
    # Control, format, surrogate, private and unassigned characters draw nothing, or turn the text around.
    return _CONTROL if unicodedata.category(character)[0] == "C" else character


class CellGlyphs:
    """Fonts of the canvas, and the latest layouts made of them."""

    LIMIT = 8192

    def __init__(self, font: QFont) -> None:
        self.font = font
        self.small = QFont(font)
        self.small.setPixelSize(max(8, round(font.pixelSize() * 0.78)))
        self.bold = QFont(font)
        self.bold.setBold(True)
        self.label = ui_font()
        self.label.setPixelSize(px(TEXT_SMALL))
        self.faces = {"plain": self.font, "small": self.small, "bold": self.bold, "label": self.label}
        self._metrics = {name: QFontMetricsF(face) for name, face in self.faces.items()}
        self._layouts: dict[tuple[str, str, int], tuple[QStaticText, float, float]] = {}
        self._widths: dict[str, float] = {}

    @property
    def character_width(self) -> float:
        return self._metrics["plain"].horizontalAdvance("0")

    @property
    def line_height(self) -> float:
        return self._metrics["plain"].height()

    def cell_height(self) -> int:
        return 4 * math.ceil((self.line_height + 8) / 4)

    def cell_width(self, texts: Sequence[str], least: int = 0) -> int:
        """A cell in which the longest of the texts fits, in whole characters, up to the cap."""
        unit = self.character_width
        # Signs come from a wider face, and are drawn small.
        widest = max((self.width(text.translate(_AS_WIDE)) for text in texts), default=unit)
        characters = min(max(1, math.ceil(widest / unit - 0.25)), MOST_CHARACTERS)
        return max(least, math.ceil(characters * unit) + 8)

    def is_narrow(self, cell_width: int) -> bool:
        """Whether a cell of this width holds one character, which then stands in its middle."""
        return cell_width < 2 * self.character_width + 8

    def width(self, text: str) -> float:
        """Advance of a text in the plain face."""
        if text not in self._widths:
            if len(self._widths) > 4 * self.LIMIT:
                self._widths.clear()
            self._widths[text] = self._metrics["plain"].horizontalAdvance(text)
        return self._widths[text]

    def label_width(self, text: str) -> int:
        return math.ceil(self._metrics["label"].horizontalAdvance(text))

    def layout(self, text: str, face: str, width: int) -> tuple[QStaticText, float, float]:
        """A laid-out text, elided to ``width``; its width, and how far its top is above the plain face's baseline."""
        key = (text, face, width)
        found = self._layouts.get(key)
        if found is not None:
            return found
        metrics = self._metrics[face]
        shown = text
        if len(text) > 1 and metrics.horizontalAdvance(text) > width:
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
        made = QStaticText(shown)
        made.setTextFormat(Qt.TextFormat.PlainText)
        made.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
        made.prepare(QTransform(), self.faces[face])
        found = made, made.size().width(), metrics.ascent()
        if len(self._layouts) >= self.LIMIT:
            del self._layouts[next(iter(self._layouts))]  # the oldest
        self._layouts[key] = found
        return found

    def baseline(self, cell_height: int) -> float:
        """Distance of the text's baseline from the top of a cell."""
        metrics = self._metrics["plain"]
        return round((cell_height - metrics.height()) / 2 + metrics.ascent())
