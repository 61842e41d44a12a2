"""Flattens nested blocks to rows, one below the other, each with its depth. Knows no Qt and no pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from app.chat.markdown_view.blocks import (
    Block,
    Code,
    Heading,
    Listing,
    Math,
    Paragraph,
    Quote,
    Table,
    Text,
    ThematicBreak,
    plain,
)
from app.chat.markdown_view.safe import safe

BULLETS = ("•", "◦", "▪")
DONE, OPEN = "☑", "☐"

MAX_IN_ROW = 4_000
"""Most characters of a row, since the time to lay one out grows with their square."""

Content = Paragraph | Heading | Code | Math | Table | ThematicBreak


@dataclass(frozen=True)
class MarkdownRow:
    """One row of a text. ``indent`` counts levels; ``bars`` are the levels with the vertical line of a quote.

    ``marker`` is the bullet or number before it. ``joint`` is the text between this row and the one above, if both are
    parts of one long text; else None.
    """

    content: Content
    indent: int = 0
    bars: tuple[int, ...] = ()
    marker: str = ""
    close: bool = False  # with a smaller gap to the row above
    joint: str | None = None

    @property
    def is_boxed(self) -> bool:
        """True if the row scrolls by itself when it is too wide."""
        return isinstance(self.content, (Code, Math, Table))

    @property
    def copied(self) -> str:
        """The text of the whole row when copied."""
        match self.content:
            case Paragraph(inlines) | Heading(_, inlines):
                return f"{self.marker} {plain(inlines)}" if self.marker else plain(inlines)
            case Code(text):
                return text
            case Math(_, written):
                return written
            case Table(_, rows):
                return "\n".join("\t".join(plain(cell) for cell in row) for row in rows)
            case ThematicBreak():
                return "---"


def flatten(blocks: Iterable[Block]) -> tuple[MarkdownRow, ...]:
    return tuple(row for long in _rows(blocks, 0, (), 0) for row in _cut(long))


def verbatim_rows(text: str, *, quoted: bool = False) -> Iterator[tuple[MarkdownRow, ...]]:
    """Yields the rows of a text that is not Markdown; ``quoted`` draws a vertical line next to them."""
    for part, joint in cut(text):
        row = MarkdownRow(Paragraph((Text(safe(part)),)), joint=joint)
        yield (replace(row, indent=1, bars=(0,)) if quoted else row,)


def cut(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields parts of a text short enough for a row, each with the removed separator before it (None for the first).

    Cuts at line ends, or else at a space, if there is one.
    """
    start, joint = 0, None
    while start < len(text):
        end = start + MAX_IN_ROW
        if end >= len(text):
            yield text[start:], joint
            return
        place = max(text.rfind("\n", start + 1, end), -1)
        if place < 0:
            place = text.rfind(" ", start + MAX_IN_ROW // 2, end)
        yield text[start : place if place > 0 else end], joint
        joint = text[place] if place > 0 else ""
        start = place + 1 if place > 0 else end
    if joint:  # the text ends with a separator
        yield "", joint


def _cut(row: MarkdownRow) -> Iterable[MarkdownRow]:
    """Splits a too long paragraph or heading of one style into several rows; returns others as they are."""
    content = row.content
    if not isinstance(content, Paragraph | Heading) or len(content.inlines) != 1:
        return (row,)
    (text,) = content.inlines
    if not isinstance(text, Text) or len(text.text) <= MAX_IN_ROW:
        return (row,)
    made = []
    for part, joint in cut(text.text):
        inlines = (replace(text, text=part),)
        made.append(replace(row, content=replace(content, inlines=inlines), joint=joint))
    return [made[0], *(replace(further, marker="") for further in made[1:])]


def _rows(blocks: Iterable[Block], indent: int, bars: tuple[int, ...], depth: int) -> Iterator[MarkdownRow]:
    for block in blocks:
        match block:
            case Quote(inner):
                yield from _rows(inner, indent + 1, (*bars, indent), depth)
            case Listing():
                yield from _list(block, indent, bars, depth)
            case _:
                yield MarkdownRow(block, indent, bars)


def _list(block: Listing, indent: int, bars: tuple[int, ...], depth: int) -> Iterator[MarkdownRow]:
    for number, item in enumerate(block.items):
        if item.done is not None:
            marker = DONE if item.done else OPEN
        elif block.start is not None:
            marker = f"{block.start + number}."
        else:
            marker = BULLETS[min(depth, len(BULLETS) - 1)]
        first = item.blocks[0] if item.blocks else None
        inner = item.blocks
        if not isinstance(first, (Paragraph, Heading)):
            inner = (Paragraph(()), *inner)  # an empty row for the marker
        for place, row in enumerate(_rows(inner, indent + 1, bars, depth + 1)):
            is_close = block.tight and (place > 0 or number > 0 or depth > 0)
            yield MarkdownRow(
                row.content, row.indent, row.bars, marker if place == 0 else row.marker, is_close or row.close
            )
