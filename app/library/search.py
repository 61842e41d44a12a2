"""Lists conversations, all or those that match a query, and finds the matches in a text. Any text is a valid query.

Words are looked up in the full-text index, each as the beginning of a word. The index knows no signs, so that of what
it finds for C++ or @nasa only texts with these very letters count. Terms that it cannot find (emoji and other symbols,
and scripts without spaces between words) are searched for anywhere in the text.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.library.records import SUMMARY_COLUMNS, Summary, summary_of

MAX_TERMS = 8
LONGEST_TERM = 80  # characters
BEFORE, LONGEST_EXCERPT = 16, 160  # characters
_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class Term:
    """A part of a query that must be found; ``is_word`` if the full-text index can find it."""

    text: str
    is_word: bool

    @property
    def match(self) -> str:
        """The operand of ``MATCH``: a quoted prefix, in which nothing is an operator."""
        quoted = self.text.replace('"', '""')
        return f'"{quoted}" *'

    @property
    def literal(self) -> str:
        """The term as ``folded`` has it if it has signs, which the index does not know; empty if it has none."""
        return "" if self.text.isalnum() else folded(self.text)

    @property
    def operands(self) -> list[str]:
        """The parameters of the conditions on a title or a message."""
        return [self.match, *filter(None, [self.literal])] if self.is_word else [self.pattern]

    @property
    def pattern(self) -> str:
        r"""The operand of ``LIKE … ESCAPE '\'``."""
        escaped = self.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"%{escaped}%"


def folded(text: str) -> str:
    """Returns a text in lower case without diacritics, as the index compares texts."""
    return unicodedata.normalize("NFC", text).translate(_FOLDED)


def terms_of(query: str) -> list[Term]:
    """Returns the terms of a query, all of which must be found, in any order."""
    said = unicodedata.normalize("NFC", query.replace("\0", " "))
    said = said.encode("utf-8", "replace").decode("utf-8")  # replaces lone surrogates, as from a paste
    texts = [text[:LONGEST_TERM] for text in dict.fromkeys(said.split())][:MAX_TERMS]
    return [Term(text, any(map(str.isalnum, text)) and not _UNSPACED.search(text)) for text in texts]


def spans(text: str, terms: Iterable[Term]) -> list[tuple[int, int]]:
    """Returns start and end of each match of the terms in a text, in order and without overlap."""
    folded = text.translate(_FOLDED)
    matches = [span for term in terms for span in _places(folded, term)]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(matches):
        if merged and start <= merged[-1][1]:
            start, end = merged[-1][0], max(end, merged.pop()[1])
        merged.append((start, end))
    return merged


def excerpt(text: str, terms: Iterable[Term]) -> str:
    """Returns one line of a text around the first match of a term."""
    text = unicodedata.normalize("NFC", text)
    folded = text.translate(_FOLDED)
    firsts = [span[0] for span in (next(_places(folded, term), None) for term in terms) if span is not None]
    first = min(firsts, default=0)
    start = max(0, first - BEFORE)
    if start:
        word = text.find(" ", start, first)
        start = word + 1 if word >= 0 else start
    end = start + LONGEST_EXCERPT
    line = " ".join(text[start:end].split())
    return ("…" if start else "") + line + ("…" if end < len(text) else "")


def _places(folded: str, term: Term) -> Iterator[tuple[int, int]]:
    """Yields start and end of a term's matches; words match only at the beginning of a word, as in the index."""
    sought = term.text.translate(_FOLDED)
    within = term.is_word and sought[0].isalnum()
    place = folded.find(sought)
    while place >= 0:
        if not (within and place and folded[place - 1].isalnum()):
            yield place, place + len(sought)
        place = folded.find(sought, place + len(sought))


class _Folding(dict[int, int]):
    """Maps characters to lower case without diacritics, always one to one, so that positions stay the same."""

    def __missing__(self, code: int) -> int:
        folded = unicodedata.normalize("NFD", chr(code))[0].casefold()
        self[code] = ord(folded) if len(folded) == 1 else code
        return self[code]


_FOLDED = _Folding({ord("’"): ord("'")})


_ORDER = "ORDER BY pinned DESC, updated DESC, id DESC"


def look_up(connection: sqlite3.Connection, query: str) -> list[Summary]:
    """Returns conversations, pinned ones first, then the latest.

    With a query, each of its terms must occur in the title or in some message. The snippet is from the message with the
    most terms, and empty if only the title has any.
    """
    terms = terms_of(query)
    connection.create_function("folded", 1, folded, deterministic=True)
    conditions = " ".join(f"AND id IN ({_conversations_with(term)})" for term in terms)
    rows = connection.execute(
        f"SELECT {SUMMARY_COLUMNS} FROM conversations WHERE deleted IS NULL {conditions} {_ORDER}",
        [value for term in terms for value in (*term.operands, *term.operands)],
    ).fetchall()
    snippets = _snippets(connection, terms) if terms and rows else {}
    return [summary_of(row, *snippets.get(row[0], ("", None))) for row in rows]


def _conversations_with(term: Term) -> str:
    """Returns a query for the ids of conversations with a term; its parameters are the term's operands, twice."""
    title = (
        f"id IN (SELECT rowid FROM title_index WHERE title_index MATCH ?){_has_literal(term, 'title')}"
        if term.is_word
        else r"title LIKE ? ESCAPE '\'"
    )
    said = f"SELECT conversation FROM messages WHERE removed IS NULL AND {_in_message(term)}"
    return f"SELECT id FROM conversations WHERE {title} UNION {said}"


def _in_message(term: Term) -> str:
    """Returns a condition on a row of messages, with the term's operands as parameters. Drafts do not match."""
    if term.is_word:
        condition = "messages.id IN (SELECT rowid FROM message_index WHERE message_index MATCH ?)"
        return f"{condition}{_has_literal(term, 'messages.content')}"
    return r"messages.status NOT IN ('waiting', 'developing') AND messages.content LIKE ? ESCAPE '\'"


def _has_literal(term: Term, column: str) -> str:
    return f" AND instr(folded({column}), ?)" if term.literal else ""


def _snippets(connection: sqlite3.Connection, terms: list[Term]) -> dict[int, tuple[str, int]]:
    """Returns for each conversation an excerpt of the message with the most terms, and its id."""
    hits = " + ".join(f"({_in_message(term)})" for term in terms)
    best = connection.execute(
        # Next to ``max``, SQLite takes bare columns from the row with the maximum.
        f"SELECT conversation, id, content, max(hits) FROM (SELECT conversation, id, content, {hits} AS hits "
        "FROM messages WHERE removed IS NULL) WHERE hits > 0 GROUP BY conversation",
        [operand for term in terms for operand in term.operands],
    )
    return {conversation: (excerpt(content, terms), id) for conversation, id, content, _hits in best}
