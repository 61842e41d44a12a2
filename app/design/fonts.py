"""The type scale, the size of text the user has chosen, and the two faces."""

from __future__ import annotations

import re
from functools import lru_cache

from PySide6.QtGui import QFont, QFontDatabase

# One type scale, in logical pixels at 100 %; ``px`` and ``sized`` bring it to the size the user reads at.
TEXT_SMALL, TEXT_BODY, TEXT_LEAD, TEXT_TITLE, TEXT_DISPLAY = 12, 14, 16, 20, 28
TEXT_CANVAS = 18
TEXT_PERCENT_LOW, TEXT_PERCENT_HIGH = 80, 200
LEAST_TEXT = 8  # pixels; below this letters run together

MONO_CHAIN = ("JetBrains Mono", "Cascadia Mono", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "Noto Sans Mono")

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
    """The monospace face of canvas and code: the system's own, then well-known ones that are installed.

    ``pixels`` is a size of the type scale; the font's own follows the size the user reads at.
    """
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    installed = set(QFontDatabase.families())  # asking for a missing family costs a slow search and a warning
    families = [font.family(), *(family for family in MONO_CHAIN if family in installed)]
    font.setFamilies(list(dict.fromkeys(families)))
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(px(pixels))
    return font


def ui_font() -> QFont:
    """The system's general face at body size."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(px(TEXT_BODY))
    return font


def caption_font() -> QFont:
    """The system's general face at the size of captions; shared, so never change it."""
    return _caption(px(TEXT_SMALL))


@lru_cache(maxsize=1)
def _caption(pixels: int) -> QFont:
    font = ui_font()
    font.setPixelSize(pixels)
    return font
