"""Lays nested blocks out as rows, one under the other, each with its depth. Knows no Qt and no pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.chat.prose.blocks import Block, Code, Formula, Heading, Listing, Math, Paragraph, Quote, Rule, Table, plain

BULLETS = ("•", "◦", "▪")
DONE, OPEN = "☑", "☐"

Content = Paragraph | Heading | Code | Math | Table | Rule


@dataclass(frozen=True)
class Row:
    """``indent`` counts levels; ``bars`` are the levels at which a quote's line stands; ``marker`` stands before it."""

    content: Content
    indent: int = 0
    bars: tuple[int, ...] = ()
    marker: str = ""
    close: bool = False  # near to the row above

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
            case Rule():
                return "---"


def flatten(blocks: tuple[Block, ...]) -> tuple[Row, ...]:
    """The rows of a text, from the top."""
    return tuple(_rows(blocks, 0, (), 0))


def formulas(rows: tuple[Row, ...]) -> Iterator[tuple[str, bool]]:
    """Every formula's LaTeX, and whether it is displayed."""
    for row in rows:
        match row.content:
            case Math(source):
                yield source, True
            case Paragraph(inlines) | Heading(_, inlines):
                yield from ((part.source, False) for part in inlines if isinstance(part, Formula))
            case Table(_, lines):
                cells = (part for line in lines for cell in line for part in cell)
                yield from ((part.source, False) for part in cells if isinstance(part, Formula))


def _rows(blocks: tuple[Block, ...], indent: int, bars: tuple[int, ...], depth: int) -> Iterator[Row]:
    for block in blocks:
        match block:
            case Quote(inner):
                yield from _rows(inner, indent + 1, (*bars, indent), depth)
            case Listing():
                yield from _list(block, indent, bars, depth)
            case _:
                yield Row(block, indent, bars)


def _list(block: Listing, indent: int, bars: tuple[int, ...], depth: int) -> Iterator[Row]:
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
            yield Row(row.content, row.indent, row.bars, marker if place == 0 else row.marker, is_close or row.close)
