"""What each part of a program is: keyword, text, remark. Knows no colours and no Qt.

A lexer can take any time on a hostile text: ``slow`` calls this in a process that can be ended.
"""

from __future__ import annotations

from typing import Literal

Part = Literal["keyword", "text", "number", "remark", "name", "error"]

MOST_CHARACTERS = 20_000
"""Longer programs stay in one colour, as reading them takes a while."""


def may_be_read(text: str, language: str) -> bool:
    """Whether a program is worth trying."""
    return bool(language) and len(text) <= MOST_CHARACTERS


def parts(text: str, language: str) -> tuple[tuple[int, int, Part], ...]:
    """(start, length, part) of what is not plain, in order. Nothing where the language is not known."""
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
