"""Finds out that a text has begun to repeat itself: the same line stands there time after time."""

from __future__ import annotations

TIMES = 5
MIN_LINE_CHARACTERS = 8  # characters of a line that counts
REPEATED = "the same line was written five times"
"""Why an answer ended, as ``GenerationFinished.why`` says it."""


def repeats(text: str) -> bool:
    """True if the last ``TIMES`` whole lines are one line; empty ones between them do not count.

    Nor do lines that good answers repeat: without a letter (rules of tables, braces, digits of a board), of a few
    characters, tags (the cells of a page's board), or those with a comma at their end (rows of data). Lines with
    different indentation differ, as nested ends of blocks have it.
    """
    lines = [line for line in map(str.rstrip, text.split("\n")[:-1]) if line][-TIMES:]
    repeated = lines[0].strip() if len(lines) == TIMES and len(set(lines)) == 1 else ""
    return (
        len(repeated) >= MIN_LINE_CHARACTERS
        and any(map(str.isalpha, repeated))
        and repeated[0] != "<"
        and repeated[-1] != ","
    )
