"""Finds the rectangles of tokens in a laid-out text. Knows no canvas."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF

from app.chat.prose.piece import Piece
from app.state.run.alignment import Alignment
from app.state.run.text_map import TextMap


def token_rects(pieces: Sequence[Piece], written: TextMap) -> dict[int, QRectF]:
    """Returns the rectangles of the tokens at the end of a text, by their position; only of shown ones.

    Args:
            pieces: all of the text, laid out; rectangles are in their coordinates
            written: the tokens' own text including markup; its beginning may be missing in the text
    """
    alignment = Alignment(written.text)
    rects: dict[int, QRectF] = {}
    for piece in reversed(pieces):
        if alignment.is_over:
            break
        spans: dict[int, tuple[int, int]] = {}
        for here, there in alignment.places(piece.letters()):
            position = written.position_at(there)
            spans[position] = here, spans.get(position, (here, here + 1))[1]
        rects |= {position: piece.span_rect(*span) for position, span in spans.items()}
    return {position: rect for position, rect in rects.items() if not rect.isEmpty()}
