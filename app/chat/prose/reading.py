"""Reads a text as rows, as far as needed, and the part of it that is shown at first."""

from __future__ import annotations

from collections.abc import Iterator

from app.chat.prose.parse import is_readable, reading
from app.chat.prose.rows import ProseRow, flatten, verbatim_rows

MOST_SHOWN, MOST_LINES = 24_000, 800
"""Largest number of characters and lines that are laid out before the user chooses "Show all"."""


def rows_of(text: str, *, markdown: bool, quoted: bool) -> Iterator[ProseRow]:
    """Yields the rows of a text; each is read when requested."""
    if not (markdown and is_readable(text)):
        for rows in verbatim_rows(text, quoted=quoted):
            yield from rows
        return
    read, done = reading(text), 0
    while done < len(read.blocks) or read.step():
        new = read.blocks[done:]
        done += len(new)
        yield from flatten(new)


def shown_part(text: str) -> str:
    """Returns the part of a text that is shown at first: all of it, or whole lines from its beginning."""
    if text.count("\n") >= MOST_LINES:
        text = "\n".join(text.split("\n", MOST_LINES)[:MOST_LINES])
    if len(text) <= MOST_SHOWN:
        return text
    cut = text.rfind("\n", MOST_SHOWN // 2, MOST_SHOWN)
    return text[: cut if cut > 0 else MOST_SHOWN]
