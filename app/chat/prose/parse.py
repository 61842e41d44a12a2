"""Reads Markdown into blocks. Knows no Qt; what it is given may be hostile.

HTML is text. Images are named and never fetched. Only web and mail addresses become links. Input that would be slow to
read, or is nested deeper than anybody writes, is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from app.chat.prose.blocks import (
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
    Rule,
    Table,
    Text,
)
from app.chat.prose.safe import safe
from app.language import tr

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

MOST_CHARACTERS = 400_000
MOST_IN_PARAGRAPH = 6_000  # characters; the time to read emphasis and links grows with their square
MOST_BRACKETS = 800  # in a paragraph
MOST_NESTED = 60
OPENED = ("http", "https", "mailto")
_TASK = re.compile(r"\[([ xX])\](?=\s|$)")


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Block, ...]:
    """The blocks of a Markdown text."""
    text = safe(text)
    if len(text) > MOST_CHARACTERS:
        return verbatim(text)
    try:
        return _blocks(_tree(text).children)
    except (RecursionError, ValueError, IndexError):
        return verbatim(text)


def _tree(text: str) -> SyntaxTreeNode:
    """Raises ValueError where the text is nested too deep: the reader leaves out what lies deeper."""
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

    reader, env = _reader(), {}  # type: ignore[var-annotated]
    tokens = reader.parse(text, env)
    for token in tokens:
        if token.level >= MOST_NESTED - 1:
            raise ValueError("nested too deep")
        if token.type != "inline":
            continue
        token.children = []
        if len(token.content) > MOST_IN_PARAGRAPH or token.content.count("[") > MOST_BRACKETS:
            token.children.append(Token("text", "", 0, content=token.content))
        else:
            reader.inline.parse(token.content, reader, env, token.children)
    return SyntaxTreeNode(tokens)


def verbatim(text: str) -> tuple[Block, ...]:
    """A text that is no Markdown: its lines as they are."""
    return (Paragraph((Text(safe(text)),)),) if text else ()


def opens(address: str) -> bool:
    """Whether an address may be opened outside the app."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme.lower() in OPENED and bool(parts.netloc or parts.path)


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    from app.chat.prose.latex import brackets

    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": MOST_NESTED})
    reader.enable(["table", "strikethrough"])
    reader.use(
        dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False, double_inline=True
    )  # prices are no formulas
    reader.use(brackets)
    reader.disable("inline")  # it is done paragraph by paragraph
    return reader


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> tuple[Block, ...]:
    return tuple(block for node in nodes for block in _block(node))


def _block(node: SyntaxTreeNode) -> Iterable[Block]:
    match node.type:
        case "paragraph":
            yield from _paragraph(_inlines(node))
        case "heading":
            yield Heading(int(node.tag[1]), _inlines(node))
        case "fence":
            yield Code(node.content.removesuffix("\n"), _language(node.info))
        case "code_block":
            yield Code(node.content.removesuffix("\n"))
        case "math_block":
            yield _math(node.content, r"\[" if node.markup == r"\[" else "$$")
        case "bullet_list":
            yield Listing(_items(node), None, _is_tight(node))
        case "ordered_list":
            yield Listing(_items(node), int(node.attrs.get("start", 1)), _is_tight(node))
        case "blockquote":
            yield Quote(_blocks(node.children))
        case "table":
            yield _table(node)
        case "hr":
            yield Rule()
        case _:
            content = getattr(node, "content", "")
            if content:
                yield Paragraph((Text(content),))


def _paragraph(inlines: Inlines) -> Iterable[Block]:
    """A paragraph; one that is nothing but a displayed formula is that formula."""
    if len(inlines) == 1 and isinstance(inlines[0], Formula) and inlines[0].written.startswith(("$$", r"\[")):
        yield Math(inlines[0].source, inlines[0].written)
    elif inlines:
        yield Paragraph(inlines)


def _math(source: str, opener: str) -> Math:
    return Math(source.strip(), _written(source, opener))


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
    """An item is a task if it begins with a box."""
    first = blocks[0] if blocks else None
    if isinstance(first, Paragraph) and isinstance(first.inlines[0], Text):
        head = first.inlines[0]
        box = None if head.code or head.link else _TASK.match(head.text)
        if box is not None:
            rest = head.text[box.end() :].lstrip()
            inlines = (Text(rest, head.bold, head.italic, head.struck), *first.inlines[1:])
            return Item((Paragraph(inlines), *blocks[1:]), box.group(1) != " ")
    return Item(blocks)


def _table(node: SyntaxTreeNode) -> Table:
    rows = [row.children for part in node.children for row in part.children]
    aligns = tuple(_align(cell) for cell in rows[0])
    return Table(aligns, tuple(tuple(_inlines(cell) for cell in row) for row in rows))


def _align(cell: SyntaxTreeNode) -> Align:
    said = str(cell.attrs.get("style", "")).removeprefix("text-align:")
    return said if said in get_args(Align) else ""  # type: ignore[return-value]


# --- within a line -------------------------------------------------------------------------------------------------


def _inlines(node: SyntaxTreeNode) -> Inlines:
    made: list[Inline] = []
    for child in node.children:
        _read(child.children, Text(""), made)
    return tuple(_joined(made))


def _read(nodes: Sequence[SyntaxTreeNode], style: Text, made: list[Inline]) -> None:
    """Append what the nodes say, each in ``style`` and what the node adds to it."""

    def text(words: str, **changes: object) -> Text:
        kept = {"bold": style.bold, "italic": style.italic, "struck": style.struck, "link": style.link}
        return Text(words, **(kept | changes))  # type: ignore[arg-type]

    for node in nodes:
        match node.type:
            case "text" | "html_inline" | "text_special":
                made.append(text(node.content))
            case "softbreak":
                made.append(text(" "))
            case "hardbreak":
                made.append(text("\n"))
            case "code_inline":
                made.append(text(node.content, code=True))
            case "math_inline" | "math_inline_double":
                opener = node.markup if node.markup in (r"\(", r"\[") else "$"
                opener = "$$" if node.type == "math_inline_double" and opener == "$" else opener
                made.append(Formula(node.content.strip(), _written(node.content, opener)))
            case "strong":
                _read(node.children, text("", bold=True), made)
            case "em":
                _read(node.children, text("", italic=True), made)
            case "s":
                _read(node.children, text("", struck=True), made)
            case "link":
                address = str(node.attrs.get("href", ""))
                _read(node.children, text("", link=address if opens(address) else ""), made)
                if not opens(address):
                    made.append(text(f" ({address})"))
            case "image":
                address, alt = str(node.attrs.get("src", "")), "".join(_letters(node))
                made.append(text(tr("[image: {alt}] ({address})", alt=alt, address=address)))
            case _:
                made.append(text(getattr(node, "content", "")))
                _read(node.children, style, made)


def _letters(node: SyntaxTreeNode) -> Iterable[str]:
    for child in node.children:
        yield from (child.content,) if child.type in ("text", "code_inline") else _letters(child)


def _joined(parts: Iterable[Inline]) -> Iterable[Inline]:
    """Neighbours of one style as one."""
    last: Inline | None = None
    for part in parts:
        if isinstance(part, Text) and isinstance(last, Text) and _style(part) == _style(last):
            last = Text(last.text + part.text, *_style(part))
            continue
        if last is not None and last != Text(""):
            yield last
        last = part
    if last is not None and not (isinstance(last, Text) and not last.text):
        yield last


def _style(part: Text) -> tuple[bool, bool, bool, bool, str]:
    return part.bold, part.italic, part.struck, part.code, part.link
