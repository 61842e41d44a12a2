"""The type scale, the size of text the user has chosen, and the two faces, which are part of the app."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from PySide6.QtGui import QFont, QFontDatabase

# One type scale, in logical pixels at 100 %; ``px`` and ``sized`` bring it to the size the user reads at.
TEXT_SMALL, TEXT_BODY, TEXT_LEAD, TEXT_TITLE, TEXT_DISPLAY = 12, 14, 16, 20, 28
TEXT_CANVAS = 18
TEXT_PERCENT_LOW, TEXT_PERCENT_HIGH = 80, 200
LEAST_TEXT = 8  # pixels; below this letters run together

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "fonts"
UI_FACE, CANVAS_FACE = "Inter", "JetBrains Mono"

_text_percent = 100


def set_text_percent(percent: int) -> None:
    """Show all text at this size from now on; what is on screen follows at the next ``apply_theme``."""
    global _text_percent
    _text_percent = min(max(percent, TEXT_PERCENT_LOW), TEXT_PERCENT_HIGH)


def text_percent() -> int:
    """The size of text, 100 for the type scale as it is written."""
    return _text_percent


def px(pixels: int) -> int:
    """A size of the type scale, or a length that goes with it, at the size the user reads at."""
    return max(min(pixels, LEAST_TEXT), round(pixels * _text_percent / 100))


def sized(sheet: str) -> str:
    """A style sheet with all its font sizes in pixels at the size the user reads at."""
    return re.sub(r"(font-size:\s*)(\d+)px", lambda found: f"{found[1]}{px(int(found[2]))}px", sheet)


def canvas_font(pixels: int = TEXT_CANVAS) -> QFont:
    """The monospace face of canvas and code; what it has no letters for is drawn in the system's faces.

    ``pixels`` is a size of the type scale; the font's own follows the size the user reads at.
    """
    font = _face(CANVAS_FACE, QFontDatabase.SystemFont.FixedFont)
    if UI_FACE in _own_families():
        font.setFamilies([CANVAS_FACE, UI_FACE, *font.families()[1:]])  # it has the signs for what is unseen
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFeature(QFont.Tag("calt"), 0)  # "->" stays two letters: it may be two tokens
    font.setPixelSize(px(pixels))
    return font


def ui_font() -> QFont:
    """The general face at body size, all figures of one width."""
    font = _face(UI_FACE, QFontDatabase.SystemFont.GeneralFont)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setPixelSize(px(TEXT_BODY))
    return font


def _face(family: str, kind: QFontDatabase.SystemFont) -> QFont:
    """The system's font of a kind, with our family before its own."""
    font = QFontDatabase.systemFont(kind)
    if family in _own_families():
        font.setFamilies([family, font.family()])
    return font


@cache
def _own_families() -> frozenset[str]:
    """Loads the files of our faces; the families of those that could be read."""
    added = [QFontDatabase.addApplicationFont(str(path)) for path in sorted(FOLDER.glob("*.[ot]tf"))]
    return frozenset(family for id in added for family in QFontDatabase.applicationFontFamilies(id))


def caption_font() -> QFont:
    """The general face at the size of captions; shared, so never change it."""
    return _caption(px(TEXT_SMALL))


@lru_cache(maxsize=1)
def _caption(pixels: int) -> QFont:
    font = ui_font()
    font.setPixelSize(pixels)
    return font
