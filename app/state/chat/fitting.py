"""Which texts a field takes: those that are laid out within a frame. Knows no Qt."""

from __future__ import annotations

from app.system.i18n import tr

LONGEST = 100_000  # characters
LONGEST_LINE = 5_000
"""Layout of a line is quadratic: one of 5 000 letters that change direction takes 0.1 s, of 20 000 over 1 s."""
MOST_LINES = 5_000


def fits(text: str) -> bool:
    """Whether a text may lie in a field."""
    if len(text) > LONGEST:
        return False
    breaks = sum(map(text.count, "\n\r\u2029"))  # as Qt counts
    return breaks < MOST_LINES and max(map(len, text.split("\n"))) <= LONGEST_LINE


def refusal() -> str:
    """What a field says of a text that was pasted and does not fit."""
    return tr(
        "What was pasted is too long for this field: it takes {characters} characters, {lines} lines, and {line} "
        "characters in each.",
        characters=f"{LONGEST:,}",
        lines=f"{MOST_LINES:,}",
        line=f"{LONGEST_LINE:,}",
    )
