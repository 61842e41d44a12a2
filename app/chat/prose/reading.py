"""Reads a text as rows, as far as needed: the part shown at first, and preparation before it is shown."""

from __future__ import annotations

from collections.abc import Iterator

from app.chat.prose.aside import aside
from app.chat.prose.parse import is_readable, reading
from app.chat.prose.rows import ProseRow, flatten, jobs, verbatim_rows

MOST_SHOWN, MOST_LINES = 24_000, 800
"""Largest number of characters and lines that are laid out before the user chooses "Show all"."""


def prepare(text: str) -> Iterator[None]:
    """Parses a Markdown text and starts its slow jobs, a little with each ``next``; the results are cached."""
    read = reading(shown_part(text))
    while read.step():
        yield
    for job in jobs(flatten(read.blocks)):
        aside().ask(job)
        yield


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
