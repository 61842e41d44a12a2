"""Lays nested blocks out as rows, one under the other, each with its depth. Knows no Qt and no pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from app.chat.prose import slow
from app.chat.prose.blocks import (
    Block,
    Code,
    Formula,
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
from app.chat.prose.safe import safe
from app.chat.prose.slow import Job

BULLETS = ("•", "◦", "▪")
DONE, OPEN = "☑", "☐"

MOST_IN_ROW = 4_000
"""Characters of a row: the time to lay one out grows with their square."""

Content = Paragraph | Heading | Code | Math | Table | ThematicBreak


@dataclass(frozen=True)
class ProseRow:
    """``indent`` counts levels; ``bars`` are the levels at which a quote's line stands; ``marker`` stands before it.

    ``joint`` is what stood between it and the row above, where both are parts of one long text, else None.
    """

    content: Content
    indent: int = 0
    bars: tuple[int, ...] = ()
    marker: str = ""
    close: bool = False  # near to the row above
    joint: str | None = None

    @property
    def is_boxed(self) -> bool:
        """Whether it scrolls by itself where it is too wide."""
        return isinstance(self.content, (Code, Math, Table))

    @property
    def copied(self) -> str:
        """What a copy of the whole row says."""
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


def flatten(blocks: Iterable[Block]) -> tuple[ProseRow, ...]:
    """The rows of a text, from the top."""
    return tuple(row for long in _rows(blocks, 0, (), 0) for row in _cut(long))


def verbatim_rows(text: str, *, quoted: bool = False) -> Iterator[tuple[ProseRow, ...]]:
    """The rows of a text that is no Markdown, one at a time; ``quoted`` sets them apart by a line beside them."""
    for part, joint in cut(text):
        row = ProseRow(Paragraph((Text(safe(part)),)), joint=joint)
        yield (replace(row, indent=1, bars=(0,)) if quoted else row,)


def cut(text: str) -> Iterator[tuple[str, str | None]]:
    """Parts of a text that are short enough for a row, each with what stood before it (None for the first).

    Cuts are made where a line ends, or else at a space, if there is one.
    """
    start, joint = 0, None
    while start < len(text):
        end = start + MOST_IN_ROW
        if end >= len(text):
            yield text[start:], joint
            return
        place = max(text.rfind("\n", start + 1, end), -1)
        if place < 0:
            place = text.rfind(" ", start + MOST_IN_ROW // 2, end)
        yield text[start : place if place > 0 else end], joint
        joint = text[place] if place > 0 else ""
        start = place + 1 if place > 0 else end
    if joint:  # it ended with it
        yield "", joint


def _cut(row: ProseRow) -> Iterable[ProseRow]:
    """A paragraph or heading of plain letters that is too long, as several rows."""
    content = row.content
    if not isinstance(content, Paragraph | Heading) or len(content.inlines) != 1:
        return (row,)
    (text,) = content.inlines
    if not isinstance(text, Text) or len(text.text) <= MOST_IN_ROW:
        return (row,)
    made = []
    for part, joint in cut(text.text):
        inlines = (replace(text, text=part),)
        made.append(replace(row, content=replace(content, inlines=inlines), joint=joint))
    return [made[0], *(replace(further, marker="") for further in made[1:])]


def jobs(rows: Iterable[ProseRow]) -> Iterator[Job]:
    """What is to be drawn and coloured for rows."""
    for row in rows:
        match row.content:
            case Math(source):
                yield slow.FormulaRequest(source, True)
            case Code(text, language):
                yield slow.ProgramRequest(text, language)
            case Paragraph(inlines) | Heading(_, inlines):
                yield from (slow.FormulaRequest(part.source, False) for part in inlines if isinstance(part, Formula))
            case Table(_, lines):
                cells = (part for line in lines for cell in line for part in cell)
                yield from (slow.FormulaRequest(part.source, False) for part in cells if isinstance(part, Formula))


def _rows(blocks: Iterable[Block], indent: int, bars: tuple[int, ...], depth: int) -> Iterator[ProseRow]:
    for block in blocks:
        match block:
            case Quote(inner):
                yield from _rows(inner, indent + 1, (*bars, indent), depth)
            case Listing():
                yield from _list(block, indent, bars, depth)
            case _:
                yield ProseRow(block, indent, bars)


def _list(block: Listing, indent: int, bars: tuple[int, ...], depth: int) -> Iterator[ProseRow]:
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
            inner = (Paragraph(()), *inner)  # somewhere the marker has to stand
        for place, row in enumerate(_rows(inner, indent + 1, bars, depth + 1)):
            is_close = block.tight and (place > 0 or number > 0 or depth > 0)
            yield ProseRow(
                row.content, row.indent, row.bars, marker if place == 0 else row.marker, is_close or row.close
            )
