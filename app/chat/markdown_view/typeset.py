"""Draws LaTeX as SVG, without TeX. Knows no Qt. The result is None if it cannot be drawn; then its source is shown.

A formula can take any time, so ``slow`` calls this in a process that can be killed. ``may_be_drawn`` is cheap.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

MAX_CHARACTERS = 1_000
MAX_NESTED = 24
MAX_BYTES = 2_000_000  # of a picture's SVG
SIZE = 16
"""Text size in pixels that pictures are drawn for; they are scaled to others."""
INK = "#010203"
"""Placeholder in a picture for the colour it is shown in."""
_DRAWN = {"svg", "g", "path", "rect", "line", "polygon", "polyline", "circle", "ellipse"}
_OPENS = re.compile(r"\\\\|\\[{}]|([{]|\\left\b|\\begin\b)|([}]|\\right\b|\\end\b)")


_FENCED = re.compile(r"\\\\|\\(begin|end)\{(?:[pbBvV]matrix\*?|cases)\}")  # environments with brackets


@dataclass(frozen=True)
class DrawnFormula:
    """A drawn formula, in logical pixels; ``descent`` is the part of ``height`` below the baseline."""

    svg: bytes
    width: float
    height: float
    descent: float

    def shown(self, pixels: int, color: str) -> DrawnFormula:
        """Returns the picture scaled to a text size in pixels, in a colour."""
        scale = pixels / SIZE
        svg = self.svg.replace(INK.encode(), color.encode())
        return replace(
            self, svg=svg, width=self.width * scale, height=self.height * scale, descent=self.descent * scale
        )


def may_be_drawn(source: str) -> bool:
    """Returns True if a formula is short and flat enough to try."""
    if not source.strip() or len(source) > MAX_CHARACTERS:
        return False
    depth = 0
    for found in _OPENS.finditer(source):
        depth += 1 if found.group(1) else -1 if found.group(2) else 0
        if depth > MAX_NESTED:
            return False
    return True


def typeset(source: str, displayed: bool) -> DrawnFormula | None:
    """Returns the picture of a formula; None if the source cannot be drawn."""
    if not may_be_drawn(source):
        return None
    try:
        svg = _library().Latex(_grouped(source), size=SIZE, color=INK, inline=not displayed).svg()
    except Exception:  # any failure of the library on a model's text means that it cannot be drawn
        return None
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)
    if box is None or len(svg) > MAX_BYTES or not set(re.findall(r"<(\w+)", svg)) <= _DRAWN:
        return None
    _, top, width, height = (float(number) for number in box.groups())
    if not (0 < width < 20_000 and 0 < height < 5_000):
        return None
    return DrawnFormula(svg.encode(), width, height, max(0.0, top + height))


def _grouped(source: str) -> str:
    """Puts braces around each matrix: ziamath fails on an index right after a closing matrix bracket."""

    def group(found: re.Match[str]) -> str:
        written = found.group()
        return written if written == r"\\" else f"{{{written}" if found[1] == "begin" else f"{written}}}"

    return _FENCED.sub(group, source)


@cache
def _library() -> ModuleType:
    """Returns the ziamath module, configured for Qt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about how it loads its own font
        import ziamath  # takes 0.3 s, so only when a formula is drawn
        from ziamath.config import config as ziamath_config
    ziamath_config.svg2 = False  # plain paths, since Qt does not draw SVG symbols
    _measure_rows_once()
    return ziamath


def _measure_rows_once() -> None:
    """Patches ziamath so that its time does not double with each level of nesting.

    It lays out every row twice, the first time to measure it without stretchy signs, and so on for each row inside.
    Within that first pass the inner measurement only sets the size of stretchy signs, which do not count there.
    """
    from ziamath.nodes.mrow import Mrow  # as in ``_library``

    measure = Mrow._get_height_nostretch

    def measure_once(row: Mrow, line: list[Any], **options: Any) -> tuple[float, float]:
        return (0.0, 0.0) if options.get("nostretch") else measure(row, line, **options)

    Mrow._get_height_nostretch = measure_once  # type: ignore[method-assign, assignment]
