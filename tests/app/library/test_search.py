"""Search by title and content; whatever is typed is a valid query."""

from __future__ import annotations

import pytest

from app.library import NewMessage
from app.library.search import excerpt, spans, terms_of


@pytest.fixture
def shelf(library):
    """Conversations by title, each with one prompt."""
    texts = {
        "Tea": "How long should green tea steep?",
        "Sudoku": "Solve a hard one. Café au lait.",
        "C++ notes": 'He said "use NOT NULL AND (x OR y)" 100% of the time_stamp',
        "Party 🎉": "emoji 🦊 in the text",
        "日本": "今日は東京へ行きます",
        "שלום": "מה שלומך היום",
        "": "a title is missing here",
        "one": "C++ of nasa, 50 off, a-b, it's Strasse-Ä",
        "two": "Cats and @nasa, 50% and $5.99, a b, a.b/c, it’s .NET",
    }
    for title, content in texts.items():
        library.add(library.create(title=title), NewMessage(None, "user", content))
    return library


def titles(library, query):
    return {summary.title for summary in library.summaries(query)}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tea", {"Tea"}),
        ("steep green", {"Tea"}),
        ("ea", set()),
        ("sudoku hard", {"Sudoku"}),
        ("cafe", {"Sudoku"}),
        ("NOT", {"C++ notes"}),
        ('"', {"C++ notes"}),
        ("C++", {"one", "C++ notes"}),
        ("@nasa", {"two"}),
        ("50%", {"two"}),
        ("a-b", {"one"}),
        ("it's", {"one", "two"}),
        ("STRASSE-Ä", {"one"}),
        (".net", {"two"}),
        ("🦊", {"Party 🎉"}),
        ("東京", {"日本"}),
        ("missing", {""}),
    ],
)
def test_what_a_query_finds(shelf, query, found):
    assert titles(shelf, query) == found


@pytest.mark.parametrize(
    "query",
    [
        "AND OR NOT",
        "NEAR(",
        "title:tea",
        "tea) UNION SELECT",
        "'; DROP TABLE messages; --",
        "{}[]",
        "\0tea\0",
        "\u202e",
        "👩‍👩‍👧‍👦",
        "\u0301",
    ],
)
def test_no_query_is_an_error_or_changes_anything(shelf, query):
    shelf.summaries(query)
    assert len(shelf.summaries()) == 9
    assert shelf.summaries("  \t") == shelf.summaries()


def test_the_snippet_shows_the_message_that_has_most_of_the_query(library):
    conversation = library.create(title="Bread")
    first = library.add(conversation, NewMessage(None, "user", "flour alone"))
    library.add(
        conversation, NewMessage(first, "assistant", "not very much before it and then\nflour with   water, and so on")
    )
    (found,) = library.summaries("water flour")
    assert found.snippet == "…it and then flour with water, and so on"
    (found,) = library.summaries("bread")
    assert found.snippet == ""


def test_an_answer_is_found_once_it_has_ended_and_a_title_as_it_is_now(library):
    conversation = library.create()
    id = library.add(conversation, NewMessage(None, "assistant", status="waiting"))
    library.update(id, status="developing", content="draft 🖋")
    assert library.summaries("draft") == library.summaries("🖋") == []
    library.update(id, status="done", content="final 🖋")
    assert len(library.summaries("final 🖋")) == 1
    library.update(id, content="rewritten")
    assert library.summaries("final") == []
    assert len(library.summaries("rewr")) == 1
    for title, former in (("before", "after"), ("after", "before")):
        library.describe(conversation, title=title)
        assert [s.id for s in library.summaries(title)] == [conversation]
        assert library.summaries(former) == []


def test_spans_mark_what_was_found():
    text = "Éclair au café, cafés and decaf"
    assert [text[a:b] for a, b in spans(text, terms_of("cafe ecl"))] == ["Écl", "café", "café"]
    assert spans("aaaa", terms_of("🎉")) == []
    assert spans("x++y", terms_of("++")) == [(1, 3)]
    assert spans("abcd", terms_of("abc ab")) == [(0, 3)]


def test_an_excerpt_is_one_short_line():
    text = "word " * 2000 + "needle\n\n" + "word " * 2000
    line = excerpt(text, terms_of("needle"))
    assert "needle" in line
    assert "\n" not in line
    assert line.startswith("…word")
    assert line.endswith("…")
    assert len(line) < 200
    assert excerpt("short", terms_of("absent")) == "short"
