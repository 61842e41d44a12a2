"""Maps the parts of a program to the theme's colours."""

from __future__ import annotations

from app.chat.prose.highlight import Part
from app.design.tokens import Theme


def part_color(part: Part, theme: Theme) -> str:
    """Returns the text colour of a part of a program."""
    return {
        "keyword": theme.remelted,
        "text": theme.accepted,
        "number": theme.given,
        "remark": theme.faint_ink,
        "name": theme.ink,
        "error": theme.conflict,
    }[part]
