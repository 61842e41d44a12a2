"""The two themes: colours by meaning, spacing, and how long a change stays tinted; and what a painter draws with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

# Spacing on a 4 px grid, in logical pixels.
SPACE_1, SPACE_2, SPACE_3, SPACE_4, SPACE_6, SPACE_8 = 4, 8, 12, 16, 24, 32
RADIUS = 4
FADE_MS = 150
"""The time in milliseconds for which a change stays tinted."""


@dataclass(frozen=True)
class Theme:
    """Colours by meaning, as ``#rrggbb``."""

    name: str
    dark: bool
    surface: str  # the window
    surface_raised: str  # panels, fields, menus
    surface_sunken: str  # wells: the canvas, code
    ink: str
    faint_ink: str  # captions, hints
    line: str  # hairlines
    line_strong: str  # edges of controls
    accent: str  # what is being developed now, the primary action
    accent_hover: str
    on_accent: str
    focus: str  # ring around the focused widget
    selection: str  # behind selected text
    noise: str
    candidate: str
    accepted: str
    taken_back: str
    settled: str
    given: str
    padding: str  # nearly invisible on purpose: no text has this colour
    conflict: str


DARKROOM = Theme(
    name="Darkroom",
    dark=True,
    surface="#171310",
    surface_raised="#211c18",
    surface_sunken="#110e0c",
    ink="#f2eadf",
    faint_ink="#a99e90",
    line="#352d27",
    line_strong="#57493f",
    accent="#f0573a",
    accent_hover="#ff7355",
    on_accent="#1b0a05",
    focus="#ffab91",
    selection="#5c2a1e",
    noise="#7d7064",
    candidate="#bfb2a2",
    accepted="#f0b96b",
    taken_back="#7fbbe0",
    settled="#f2eadf",
    given="#ffe3b0",
    padding="#463c34",
    conflict="#ff7591",
)

PAPER = Theme(
    name="Paper",
    dark=False,
    surface="#f8f3ea",
    surface_raised="#fffcf6",
    surface_sunken="#fdf9f2",
    ink="#231c16",
    faint_ink="#6d6254",
    line="#e0d6c7",
    line_strong="#b7a996",
    accent="#bf3a1d",
    accent_hover="#a52e14",
    on_accent="#fffaf3",
    focus="#8f2a12",
    selection="#f3cdbf",
    noise="#8d8070",
    candidate="#665b4e",
    accepted="#8a5500",
    taken_back="#1d6493",
    settled="#231c16",
    given="#4b3510",
    padding="#d8cdbd",
    conflict="#b2143f",
)

# Magma of the viridis family (matplotlib, CC0), sixteen even samples: black to cream, perceptually uniform.
_MAGMA = tuple(
    QColor(code)
    for code in (
        *(0x000004, 0x0B0924, 0x20114B, 0x3B0F70, 0x57157E, 0x721F81, 0x8C2981, 0xA8327D),
        *(0xC43C75, 0xDE4968, 0xF1605D, 0xFA7F5E, 0xFE9F6D, 0xFEBF84, 0xFDDEA0, 0xFCFDBF),
    )
)


@cache
def color(code: str) -> QColor:
    """Returns the QColor of a ``#rrggbb`` token; it is shared, so do not change it."""
    return QColor(code)


def veil(shade: str | QColor, alpha: float) -> QColor:
    """Returns a colour with this opacity."""
    veiled = QColor(shade)
    veiled.setAlphaF(alpha)
    return veiled


def entropy_color(value01: float, theme: Theme) -> QColor:
    """Returns the colour of a share of the entropy scale, clamped to 0..1.

    Low entropy blends into the surface: it is dark in a dark theme, and the map is reversed in a light one.
    """
    value = min(max(float(value01), 0.0), 1.0)
    place = (value if theme.dark else 1.0 - value) * (len(_MAGMA) - 1)
    low = min(int(place), len(_MAGMA) - 2)
    return mixed(_MAGMA[low], _MAGMA[low + 1], place - low)


def mixed(one: QColor, other: QColor, share: float) -> QColor:
    """Returns a colour with this share of another mixed in."""
    pairs = (one.red(), other.red()), (one.green(), other.green()), (one.blue(), other.blue())
    return QColor(*(round(low + (high - low) * share) for low, high in pairs))


def luminance(shade: QColor) -> float:
    """Returns the relative luminance as WCAG 2 defines it, 0 to 1."""

    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(shade.redF()) + 0.7152 * linear(shade.greenF()) + 0.0722 * linear(shade.blueF())


def readable_on(background: QColor) -> QColor:
    """Returns near-black or near-white, whichever has the higher contrast."""
    # at 0.179 the contrast to black equals that to white
    return color("#000000") if luminance(background) > 0.179 else color("#ffffff")


def set_inks(painter: QPainter, pen: QPen | QColor | Qt.PenStyle, brush: QBrush | QColor | Qt.BrushStyle) -> None:
    painter.setPen(pen)
    painter.setBrush(brush)
