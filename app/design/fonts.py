"""The type scale, the user's text size, and the two font families that come with the app."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from PySide6.QtGui import QFont, QFontDatabase

# The type scale, in logical pixels at 100 %; ``px`` and ``sized`` scale it to the user's text size.
TEXT_SMALL, TEXT_BODY, TEXT_LEAD, TEXT_TITLE, TEXT_DISPLAY = 12, 14, 16, 20, 28
TEXT_CANVAS = 18
TEXT_PERCENT_LOW, TEXT_PERCENT_HIGH = 80, 200
LEAST_TEXT = 8  # pixels; smaller letters run together

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "fonts"
UI_FACE, CANVAS_FACE = "Inter", "JetBrains Mono"

_text_percent = 100


def set_text_percent(percent: int) -> None:
    """Sets the text size in percent; shown widgets follow at the next ``apply_theme``."""
    global _text_percent
    _text_percent = min(max(percent, TEXT_PERCENT_LOW), TEXT_PERCENT_HIGH)


def text_percent() -> int:
    """Returns the text size in percent; 100 is the type scale unchanged."""
    return _text_percent


def px(pixels: int) -> int:
    """Scales a size of the type scale, or a length that goes with it, to the user's text size."""
    return max(min(pixels, LEAST_TEXT), round(pixels * _text_percent / 100))


def sized(sheet: str) -> str:
    """Scales all font sizes in pixels of a style sheet to the user's text size."""
    return re.sub(r"(font-size:\s*)(\d+)px", lambda match: f"{match[1]}{px(int(match[2]))}px", sheet)


def canvas_font(pixels: int = TEXT_CANVAS) -> QFont:
    """Returns the monospace font of canvas and code. Characters that it lacks are drawn in the system's fonts.

    ``pixels`` is a size of the type scale; the returned font is scaled to the user's text size.
    """
    font = _face(CANVAS_FACE, QFontDatabase.SystemFont.FixedFont)
    if UI_FACE in _own_families():
        font.setFamilies([CANVAS_FACE, UI_FACE, *font.families()[1:]])  # it has the signs for invisible characters
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFeature(QFont.Tag("calt"), 0)  # without ligatures "->" stays two characters: it may be two tokens
    font.setPixelSize(px(pixels))
    return font


def ui_font(pixels: int = TEXT_BODY) -> QFont:
    """Returns the general font, with figures of one width; ``pixels`` as for ``canvas_font``."""
    font = _face(UI_FACE, QFontDatabase.SystemFont.GeneralFont)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setPixelSize(px(pixels))
    return font


def _face(family: str, kind: QFontDatabase.SystemFont) -> QFont:
    """Returns the system's font of a kind, with our family first."""
    font = QFontDatabase.systemFont(kind)
    if family in _own_families():
        font.setFamilies([family, font.family()])
    return font


@cache
def _own_families() -> frozenset[str]:
    """Loads our font files and returns the families of those that could be read."""
    added = [QFontDatabase.addApplicationFont(str(path)) for path in sorted(FOLDER.glob("*.[ot]tf"))]
    return frozenset(family for id in added for family in QFontDatabase.applicationFontFamilies(id))


def caption_font() -> QFont:
    """Returns the general font at caption size; it is shared, so do not change it."""
    return _caption(_text_percent)


@lru_cache(maxsize=1)
def _caption(_percent: int) -> QFont:
    return ui_font(TEXT_SMALL)
