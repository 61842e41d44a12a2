"""Draws LaTeX as SVG, without TeX. Knows no Qt; what cannot be drawn is None, and then its source is shown.

A formula can take any time: ``slow`` calls this in a process that can be ended. ``may_be_drawn`` is cheap.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

MOST_CHARACTERS = 1_000
MOST_NESTED = 24
MOST_BYTES = 2_000_000  # of a picture
SIZE = 16
"""Pixels of the text that a picture is drawn for; it is scaled to others."""
INK = "#010203"
"""Stands in a picture for the colour that it gets when it is shown."""
_DRAWN = {"svg", "g", "path", "rect", "line", "polygon", "polyline", "circle", "ellipse"}
_OPENS = re.compile(r"\\\\|\\[{}]|([{]|\\left\b|\\begin\b)|([}]|\\right\b|\\end\b)")


_FENCED = re.compile(r"\\\\|\\(begin|end)\{(?:[pbBvV]matrix\*?|cases)\}")  # with brackets of their own


@dataclass(frozen=True)
class DrawnFormula:
    """A formula in logical pixels; ``descent`` of its ``height`` lies under the line it stands on."""

    svg: bytes
    width: float
    height: float
    descent: float

    def shown(self, pixels: int, color: str) -> DrawnFormula:
        """The picture for text of another size, in an ink."""
        scale = pixels / SIZE
        svg = self.svg.replace(INK.encode(), color.encode())
        return replace(
            self, svg=svg, width=self.width * scale, height=self.height * scale, descent=self.descent * scale
        )


def may_be_drawn(source: str) -> bool:
    """Whether a formula is short and flat enough to be tried."""
    if not source.strip() or len(source) > MOST_CHARACTERS:
        return False
    depth = 0
    for found in _OPENS.finditer(source):
        depth += 1 if found.group(1) else -1 if found.group(2) else 0
        if depth > MOST_NESTED:
            return False
    return True


def typeset(source: str, displayed: bool) -> DrawnFormula | None:
    """The picture of a formula; None where the source is not understood."""
    if not may_be_drawn(source):
        return None
    try:
        svg = _library().Latex(_grouped(source), size=SIZE, color=INK, inline=not displayed).svg()
    except Exception:  # any failure of a drawing library on a model's text means: not understood
        return None
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)
    if box is None or len(svg) > MOST_BYTES or not set(re.findall(r"<(\w+)", svg)) <= _DRAWN:
        return None
    _, top, width, height = (float(number) for number in box.groups())
    if not (0 < width < 20_000 and 0 < height < 5_000):
        return None
    return DrawnFormula(svg.encode(), width, height, max(0.0, top + height))


def _grouped(source: str) -> str:
    """A formula whose matrices are each one group: the library hangs an index on their closing bracket, and fails."""

    def group(found: re.Match[str]) -> str:
        written = found.group()
        return written if written == r"\\" else f"{{{written}" if found[1] == "begin" else f"{written}}}"

    return _FENCED.sub(group, source)


@cache
def _library() -> ModuleType:
    """ziamath, set up for Qt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it finds its own font
        import ziamath  # 0.3 s, and only when a formula is drawn
        from ziamath.config import config as ziamath_config
    ziamath_config.svg2 = False  # plain paths; Qt draws no symbols
    _measure_rows_once()
    return ziamath


def _measure_rows_once() -> None:
    """Keep ziamath's time from doubling with each level of nesting.

    It lays every row out twice, first to measure it without what stretches, and in that pass each row within twice
    again. There the inner measure only tells how far a sign stretches that does not count.
    """
    from ziamath.nodes.mrow import Mrow  # as in ``_library``

    measure = Mrow._get_height_nostretch

    def measure_once(row: Mrow, line: list[Any], **options: Any) -> tuple[float, float]:
        return (0.0, 0.0) if options.get("nostretch") else measure(row, line, **options)

    Mrow._get_height_nostretch = measure_once  # type: ignore[method-assign, assignment]
