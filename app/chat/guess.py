"""How tall a turn will be, from the length of its texts. Knows no widgets; being wrong is set right later."""

from __future__ import annotations

from app.design.fonts import TEXT_BODY, TEXT_LEAD, px
from app.state.chat.conversation import Turn

FIXED = 210  # speakers, buttons, the line of figures, and the space between them
PICTURES = 136
CODE_FRAME = 56
GAP = 12


def guess_height(turn: Turn, width: int) -> int:
    """Pixels of a turn in a column so many pixels wide."""
    letters = max(20, round(width / (px(TEXT_LEAD) * 0.53)))
    pictures = px(PICTURES) if turn.pictures else 0  # of one row
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
