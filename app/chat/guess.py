"""Estimates the height of a turn from the length of its texts. Knows no widgets; layout corrects it later."""

from __future__ import annotations

from app.design.fonts import TEXT_BODY, TEXT_LEAD, px
from app.state.chat.conversation import Turn

FIXED = 210  # pixels: speakers, buttons, the line of figures, and the space between them
PICTURES = 136
CODE_FRAME = 56
GAP = 12


def guess_height(turn: Turn, width: int) -> int:
    """Returns the estimated height of a turn in a column ``width`` pixels wide, in pixels."""
    letters = max(20, round(width / (px(TEXT_LEAD) * 0.53)))
    pictures = px(PICTURES) if turn.pictures else 0  # assumes one row
    return FIXED + pictures + _text(turn.prompt, letters) + _text(turn.answer.text, letters)


def _text(text: str, letters: int) -> int:
    line, code_line = round(px(TEXT_LEAD) * 1.55), round(px(TEXT_BODY) * 1.2)
    height = 0
    is_code = False
    for part in text[:24_000].split("\n"):
        if part.lstrip().startswith("```"):
            is_code = not is_code
            height += CODE_FRAME if is_code else 0
        elif is_code:
            height += code_line
        elif part:
            height += line * -(-len(part) // letters) + (4 if part.lstrip()[:1] in "-*1" else 0)
        else:
            height += GAP
    return height
