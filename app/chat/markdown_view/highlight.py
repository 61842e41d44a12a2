"""Classifies the parts of a program: keyword, text, remark and so on. Knows no colours and no Qt.

A lexer can take any time on a hostile text, so ``slow`` calls this in a process that can be killed.
"""

from __future__ import annotations

from typing import Literal

Part = Literal["keyword", "text", "number", "remark", "name", "error"]

MAX_CHARACTERS = 20_000
"""Longer programs stay in one colour, since lexing them takes too long."""


def may_be_read(text: str, language: str) -> bool:
    """Returns True if a program has a language and is short enough."""
    return bool(language) and len(text) <= MAX_CHARACTERS


def parts(text: str, language: str) -> tuple[tuple[int, int, Part], ...]:
    """Returns (start, length, part) of all text that is not plain, in order. Empty for an unknown language."""
    if not may_be_read(text, language):
        return ()
    # Only ``slow``'s process needs pygments; the window imports this module for ``may_be_read``.
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Token
    from pygments.util import ClassNotFound

    kinds: tuple[tuple[object, Part], ...] = (
        (Token.Comment, "remark"),
        (Token.Keyword.Constant, "number"),
        (Token.Keyword, "keyword"),
        (Token.Operator.Word, "keyword"),
        (Token.Literal.String, "text"),
        (Token.Literal.Number, "number"),
        (Token.Name.Function, "name"),
        (Token.Name.Class, "name"),
        (Token.Name.Tag, "keyword"),
        (Token.Name.Decorator, "name"),
        (Token.Name.Attribute, "name"),
        (Token.Generic.Deleted, "error"),
        (Token.Generic.Inserted, "text"),
        (Token.Generic.Heading, "keyword"),
        (Token.Generic.Subheading, "keyword"),
    )
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        found = [(start, kind, value) for start, kind, value in lexer.get_tokens_unprocessed(text) if value]
    except (ClassNotFound, RecursionError, ValueError):
        return ()
    return tuple(
        (start, len(value), part)
        for start, kind, value in found
        if (part := next((part for wanted, part in kinds if kind in wanted), None)) is not None  # type: ignore[operator]
    )
