"""Where tokens stand in a text that is laid out: the rectangles of their own letters. Knows no canvas."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QRectF

from app.chat.prose.piece import Piece
from app.state.run.alignment import Alignment
from app.state.run.text_map import TextMap, units

HEAD = 200
"""Characters by which the beginning of a text is found in all that was written, thoughts before it included."""


def token_rects(pieces: Iterable[Piece], text: str, written: TextMap, first: int) -> dict[int, QRectF]:
    """The positions of ``written`` from ``first`` on whose letters are shown, each with where they are.

    Args:
        pieces: laid out, of ``text``; rectangles are in their coordinates
        text: what was read from all that was written
        written: the tokens' own text, markup and all
    """
    begin = max(0, written.text.rfind(text[:HEAD].strip()))
    alignment, from_on = Alignment(written.text, units(written.text[:begin])), written.edges[first]
    rects: dict[int, QRectF] = {}
    for piece in pieces:
        spans: dict[int, tuple[int, int]] = {}
        for here, there in alignment.places(piece.letters()):
            if there >= from_on:
                position = written.position_at(there)
                spans[position] = spans.get(position, (here, here))[0], here + 1
        rects |= {position: piece.span_rect(*span) for position, span in spans.items() if position not in rects}
    return {position: rect for position, rect in rects.items() if not rect.isEmpty()}
