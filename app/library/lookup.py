"""The list of conversations as SQL: all of them, or those in which a query is found."""

from __future__ import annotations

import sqlite3

from app.library.records import Summary
from app.library.rows import SUMMARY_COLUMNS, summary_of
from app.library.search import Term, excerpt, terms_of

_ORDER = "ORDER BY pinned DESC, updated DESC, id DESC"


def look_up(connection: sqlite3.Connection, query: str) -> list[Summary]:
    """Pinned ones first, then those written to last.

    With a query, each of its terms must stand in the title or in some message; the snippet is of a message that has the
    most of them, and empty where only the title has any.
    """
    terms = terms_of(query)
    found = " ".join(f"AND id IN ({_conversations_with(term)})" for term in terms)
    rows = connection.execute(
        f"SELECT {SUMMARY_COLUMNS} FROM conversations WHERE deleted IS NULL {found} {_ORDER}",
        [value for term in terms for value in (_sought(term), _sought(term))],
    ).fetchall()
    snippets = _snippets(connection, terms) if terms and rows else {}
    return [summary_of(row, snippets.get(row[0], "")) for row in rows]


def _conversations_with(term: Term) -> str:
    """Identities of conversations that have a term; takes what is sought twice."""
    titles = (
        "SELECT rowid FROM title_index WHERE title_index MATCH ?"
        if term.is_word
        else r"SELECT id FROM conversations WHERE title LIKE ? ESCAPE '\'"
    )
    return f"{titles} UNION SELECT conversation FROM messages WHERE removed IS NULL AND {_in_message(term)}"


def _in_message(term: Term) -> str:
    """A condition on a row of messages; takes what is sought once. A draft is not looked into."""
    if term.is_word:
        return "messages.id IN (SELECT rowid FROM message_index WHERE message_index MATCH ?)"
    return r"messages.status NOT IN ('waiting', 'developing') AND messages.content LIKE ? ESCAPE '\'"


def _sought(term: Term) -> str:
    return term.match if term.is_word else term.pattern


def _snippets(connection: sqlite3.Connection, terms: list[Term]) -> dict[int, str]:
    """For each conversation a line of a message that has the most of the terms."""
    hits = " + ".join(f"({_in_message(term)})" for term in terms)
    best = connection.execute(
        # SQLite takes the bare columns beside a max from the row that has it.
        f"SELECT conversation, content, max(hits) FROM (SELECT conversation, content, {hits} AS hits FROM messages "
        "WHERE removed IS NULL) WHERE hits > 0 GROUP BY conversation",
        [_sought(term) for term in terms],
    )
    return {conversation: excerpt(content, terms) for conversation, content, _hits in best}
