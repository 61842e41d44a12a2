"""Parses Markdown into blocks. Knows no Qt; the input may be hostile.

HTML is shown as text. Images are named and never fetched. Only web and mail addresses become links. Input that would
be slow to parse or is nested too deep is shown as it is. A long text is parsed block by block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from app.chat.markdown_view.blocks import (
    Align,
    Block,
    Code,
    Formula,
    Heading,
    Inline,
    Inlines,
    Item,
    Listing,
    Math,
    Paragraph,
    Quote,
    Table,
    Text,
    ThematicBreak,
    safe,
)
from app.chat.markdown_view.latex import brackets, dollars
from app.system.i18n import tr

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

MAX_TEXT_CHARACTERS, MAX_TEXT_LINES = 120_000, 2_500  # a list of this many lines takes a quarter of a second
MAX_IN_PARAGRAPH = 6_000  # characters; the time to parse emphasis and links grows with their square
MAX_BRACKETS = 200  # per paragraph
MAX_NESTED = 24
MAX_CELLS, MAX_COLUMNS = 1_000, 60
"""Bounds of a table; larger ones are shown as source, since layout would be slow."""
OPENED = ("http", "https", "mailto")
_RULE = re.compile(r"[|:-][ \t|:-]*")  # the line under the header row of a table
_TASK = re.compile(r"\[([ xX])\](?=\s|$)")


class Reading:
    """A Markdown text being parsed: each ``step`` appends to ``blocks`` those of one more top-level part."""

    def __init__(self, text: str) -> None:
        self.blocks: list[Block] = []
        self._rest = _read_text(safe(text))

    def step(self) -> bool:
        """Parses the next part. Returns False if there is none."""
        blocks = next(self._rest, None)
        self.blocks += blocks or ()
        return blocks is not None


@lru_cache(maxsize=256)
def reading(text: str) -> Reading:
    """Returns the cached, possibly unfinished reading of a text."""
    return Reading(text)


def parse(text: str) -> tuple[Block, ...]:
    read = reading(text)
    while read.step():
        pass
    return tuple(read.blocks)


def is_readable(text: str) -> bool:
    """Returns True if a text is short enough to be parsed as Markdown."""
    return len(text) <= MAX_TEXT_CHARACTERS and text.count("\n") <= MAX_TEXT_LINES


def _read_text(text: str) -> Iterator[tuple[Block, ...]]:
    try:
        tokens = _reader().parse(text) if is_readable(text) else None
    except (RecursionError, ValueError, IndexError):
        tokens = None
    if tokens is None or any(token.level >= MAX_NESTED - 1 for token in tokens):  # the parser omits deeper text
        yield verbatim(text)
        return
    part: list[Token] = []
    for token in tokens:
        part.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield _read_part(part)
            part = []


def _read_part(tokens: list[Token]) -> tuple[Block, ...]:
    """Returns the blocks of a top-level part; its plain text if its content cannot be parsed."""
    from markdown_it.tree import SyntaxTreeNode  # as in ``_reader``

    try:
        for token in tokens:
            if token.type == "inline":
                token.children = _children(token.content)
        return _blocks(SyntaxTreeNode(tokens).children)
    except (RecursionError, ValueError, IndexError):
        return verbatim("\n".join(token.content for token in tokens if token.content))


def _children(content: str) -> list[Token]:
    from markdown_it.token import Token  # as in ``_reader``

    if len(content) > MAX_IN_PARAGRAPH or content.count("[") > MAX_BRACKETS:
        return [Token("text", "", 0, content=content)]
    tokens: list[Token] = []
    _reader().inline.parse(content, _reader(), {}, tokens)
    return tokens


def html_of(text: str) -> str:
    """Returns Markdown as HTML, for other programs. HTML in it stays text, and no picture is fetched."""
    from markdown_it import MarkdownIt  # as in ``_reader``

    plain = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}).enable(["table", "strikethrough"])
    return str(plain.disable("image").render(text))


def verbatim(text: str) -> tuple[Block, ...]:
    """Returns a text that is not Markdown as a paragraph of its lines."""
    return (Paragraph((Text(safe(text)),)),) if text else ()


def opens(address: str) -> bool:
    """Returns True if an address may be opened outside the app."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme.lower() in OPENED and bool(parts.netloc or parts.path)


@cache
def _reader() -> MarkdownIt:
    # Imports 80 modules, which a start without a shown answer does not need.
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED})
    reader.enable(["table", "strikethrough"])
    reader.use(dollars)
    reader.use(brackets)
    reader.block.ruler.before("table", "large_table", _large_table, {"alt": ["paragraph", "reference"]})
    reader.disable("inline")  # ``_children`` does it paragraph by paragraph
    return reader


def _large_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Markdown-it rule: a table with too many cells becomes code, so its source is shown in a box."""
    if start + 2 > end or state.is_code_block(start):
        return False
    head, rule = (
        state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]] for line in (start, start + 1)
    )
    if "|" not in head or not _RULE.fullmatch(rule):
        return False
    columns, last = len([cell for cell in rule.split("|") if cell.strip()]), start + 2
    while last < end and not state.isEmpty(last) and state.sCount[last] >= state.blkIndent:
        last += 1
    if columns <= MAX_COLUMNS and columns * (last - start) <= MAX_CELLS:
        return False
    if not silent:
        token = state.push("code_block", "code", 0)
        token.content = state.getLines(start, last, state.blkIndent, True)
        token.map = [start, last]
        state.line = last
    return True


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> tuple[Block, ...]:
    return tuple(block for node in nodes for block in _block(node))


def _block(node: SyntaxTreeNode) -> Iterable[Block]:
    match node.type:
        case "paragraph":
            yield from _paragraph(_inlines(node))
        case "heading":
            yield Heading(int(node.tag[1]), _inlines(node))
        case "fence" | "code_block":
            yield Code(node.content.removesuffix("\n"), _language(node.info))
        case "math_block":
            opener = r"\[" if node.markup == r"\[" else "$$"
            yield Math(node.content.strip(), _written(node.content, opener))
        case "bullet_list" | "ordered_list":
            start = None if node.type == "bullet_list" else int(node.attrs.get("start", 1))
            yield Listing(_items(node), start, _is_tight(node))
        case "blockquote":
            yield Quote(_blocks(node.children))
        case "table":
            yield _table(node)
        case "hr":
            yield ThematicBreak()
        case _:
            content = getattr(node, "content", "")
            if content:
                yield Paragraph((Text(content),))


def _paragraph(inlines: Inlines) -> Iterable[Block]:
    """Yields a paragraph; a displayed formula if the paragraph is one."""
    if len(inlines) == 1 and isinstance(inlines[0], Formula) and inlines[0].written.startswith(("$$", r"\[")):
        yield Math(inlines[0].source, inlines[0].written)
    elif inlines:
        yield Paragraph(inlines)


def _written(source: str, opener: str) -> str:
    closer = {r"\(": r"\)", r"\[": r"\]"}.get(opener, opener)
    return f"{opener}{source}{closer}"


def _language(info: str) -> str:
    words = info.strip().split(maxsplit=1)
    return words[0].strip("{}.").lower()[:24] if words else ""


def _is_tight(node: SyntaxTreeNode) -> bool:
    return all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")


def _items(node: SyntaxTreeNode) -> tuple[Item, ...]:
    return tuple(_item(_blocks(child.children)) for child in node.children)


def _item(blocks: tuple[Block, ...]) -> Item:
    """Returns an item of a list; a task if it begins with a check box."""
    first = blocks[0] if blocks else None
    if isinstance(first, Paragraph) and isinstance(first.inlines[0], Text):
        head = first.inlines[0]
        box = None if head.code or head.link else _TASK.match(head.text)
        if box is not None:
            inlines = (Text(head.text[box.end() :].lstrip(), head.bold, head.italic, head.struck), *first.inlines[1:])
            return Item((Paragraph(inlines), *blocks[1:]), box.group(1) != " ")
    return Item(blocks)


def _table(node: SyntaxTreeNode) -> Table:
    rows = [row.children for part in node.children for row in part.children]
    aligns = tuple(_align(cell) for cell in rows[0])
    return Table(aligns, tuple(tuple(_inlines(cell) for cell in row) for row in rows))


def _align(cell: SyntaxTreeNode) -> Align:
    said = str(cell.attrs.get("style", "")).removeprefix("text-align:")
    return said if said in get_args(Align) else ""  # type: ignore[return-value]


def _inlines(node: SyntaxTreeNode) -> Inlines:
    inlines: list[Inline] = []
    for child in node.children:
        _read(child.children, Text(""), inlines)
    return tuple(_joined(inlines))


def _read(nodes: Sequence[SyntaxTreeNode], style: Text, inlines: list[Inline]) -> None:
    """Appends the content of the nodes to ``inlines``, in ``style`` combined with each node's own style."""

    def text(words: str, **changes: object) -> Text:
        return replace(style, text=words, **changes)  # type: ignore[arg-type]

    for node in nodes:
        match node.type:
            case "text" | "html_inline" | "text_special":
                inlines.append(text(node.content))
            case "softbreak" | "hardbreak":  # soft ones, too: models mean their line breaks
                inlines.append(text("\n"))
            case "code_inline":
                inlines.append(text(node.content, code=True))
            case "math_inline" | "math_inline_double":
                opener = node.markup if node.markup in (r"\(", r"\[") else "$"
                opener = "$$" if node.type == "math_inline_double" and opener == "$" else opener
                inlines.append(Formula(node.content.strip(), _written(node.content, opener)))
            case "strong":
                _read(node.children, text("", bold=True), inlines)
            case "em":
                _read(node.children, text("", italic=True), inlines)
            case "s":
                _read(node.children, text("", struck=True), inlines)
            case "link":
                address = str(node.attrs.get("href", ""))
                _read(node.children, text("", link=address if opens(address) else ""), inlines)
                if not opens(address):
                    inlines.append(text(f" ({address})"))
            case "image":
                address, alt = str(node.attrs.get("src", "")), "".join(_letters(node))
                inlines.append(text(tr("[image: {alt}] ({address})", alt=alt, address=address)))
            case _:
                inlines.append(text(getattr(node, "content", "")))
                _read(node.children, style, inlines)


def _letters(node: SyntaxTreeNode) -> Iterable[str]:
    for child in node.children:
        yield from (child.content,) if child.type in ("text", "code_inline") else _letters(child)


def _joined(parts: Iterable[Inline]) -> Iterable[Inline]:
    """Merges neighbouring texts of one style, and leaves out empty ones."""
    for style, same in groupby(parts, lambda part: astuple(part)[1:] if isinstance(part, Text) else None):
        if style is None:
            yield from same
        elif text := "".join(part.text for part in same if isinstance(part, Text)):
            yield Text(text, *style)
