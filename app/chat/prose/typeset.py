"""Draws LaTeX as SVG, without TeX. Knows no Qt; what cannot be drawn is None, and then its source is shown."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType

MOST_CHARACTERS = 1_000
_DRAWN = {"svg", "g", "path", "rect", "line", "polygon", "polyline", "circle", "ellipse"}


@dataclass(frozen=True)
class Picture:
    """A formula in logical pixels; ``descent`` of its ``height`` lies under the line it stands on."""

    svg: bytes
    width: float
    height: float
    descent: float


@lru_cache(maxsize=2048)
def typeset(source: str, displayed: bool, pixels: int, color: str) -> Picture | None:
    """The picture of a formula at a text size; None where the source is not understood."""
    if not source.strip() or len(source) > MOST_CHARACTERS:
        return None
    try:
        drawn = _library().Latex(source, size=pixels, color=color, inline=not displayed)
        svg = drawn.svg()
    except Exception:  # any failure of a drawing library on a model's text means: not understood
        return None
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)
    if box is None or not set(re.findall(r"<(\w+)", svg)) <= _DRAWN:
        return None
    _, top, width, height = (float(number) for number in box.groups())
    if not (0 < width < 20_000 and 0 < height < 5_000):
        return None
    return Picture(svg.encode(), width, height, max(0.0, top + height))


@cache
def _library() -> ModuleType:
    """Imported when the first formula is drawn, which takes a third of a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it finds its own font
        import ziamath
    ziamath.config.svg2 = False  # plain paths; Qt draws no symbols
    return ziamath
