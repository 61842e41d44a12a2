"""Reads a text as rows, as far as needed, and the part of it that is shown at first."""

from __future__ import annotations

from collections.abc import Iterator

from app.chat.markdown_view.parse import is_readable, reading
from app.chat.markdown_view.rows import MarkdownRow, flatten, verbatim_rows

MAX_SHOWN, MAX_LINES = 24_000, 800
"""Largest number of characters and lines that are laid out before the user chooses "Show all"."""


def rows_of(text: str, *, markdown: bool, quoted: bool) -> Iterator[MarkdownRow]:
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
    if text.count("\n") >= MAX_LINES:
        text = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])
    if len(text) <= MAX_SHOWN:
        return text
    cut = text.rfind("\n", MAX_SHOWN // 2, MAX_SHOWN)
    return text[: cut if cut > 0 else MAX_SHOWN]
