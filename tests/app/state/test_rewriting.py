"""Prompts with gaps, parts of answers and revisions as runs; and the differences of two texts."""

from __future__ import annotations

import random

import pytest

from app.state.chat.rewriting import (
    MAX_REVISED,
    differences,
    merged,
    of_draft,
    of_prompt,
    of_selection,
    places_of_changes,
    revision,
    source_span,
)
from engine import SafelightError
from engine.text.outline import INSTRUCTION, Hole

ASKED = "Write a line."
TEXT = "The sea is grey and cold today."


def test_a_prompt_with_gaps_is_the_answer_and_what_is_above_the_line_is_said() -> None:
    made = of_prompt("Dear [[…]], bye.")
    assert (made.wording(ASKED), made.further()) == (INSTRUCTION, ())
    made = of_prompt("To my landlord.\n---\nDear [[…]], bye.")
    assert made.wording(ASKED) == "To my landlord."
    assert made.outline == ("Dear ", Hole(), ", bye.")
    assert of_prompt("No gap.") is None


def test_a_selection_is_written_again_between_what_is_around_it() -> None:
    start = TEXT.index("grey")
    stop = start + len("grey and cold")
    made = of_selection("rewrite", TEXT, start, stop, "Warmer.")
    assert made.outline == ("The sea is ", Hole(125, "percent", "grey and cold"), " today.")
    assert made.wording(ASKED) == ASKED
    roles = [(message["role"], message["content"]) for message in made.further()]
    assert roles == [("assistant", TEXT), ("user", "Warmer.")]
    assert of_selection("shorten", TEXT, start, stop).outline[1] == Hole(50, "percent", "grey and cold")
    assert of_selection("fill", TEXT, start, start + 4).outline[1] == Hole()
    on = of_selection("continue", TEXT, start, stop, "Longer.")
    assert on.outline == ("The sea is grey and cold", Hole())
    assert (on.wording(ASKED), on.further()) == ("Write a line.\n\nLonger.", ())


def test_a_revision_answers_the_prompt_and_a_draft_is_its_own_prompt() -> None:
    made = revision(TEXT, 0.4)
    assert (made.outline, made.noise, made.wording(ASKED), made.further()) == ((TEXT,), 0.4, ASKED, ())
    drafted = of_draft("Make it warm.\n---\n" + TEXT)
    assert drafted.outline == (TEXT,)
    assert drafted.wording(ASKED) == "Make it warm."
    assert TEXT in of_draft(TEXT).wording(ASKED)
    for text in ("", " \n", "x" * (MAX_REVISED + 1)):
        with pytest.raises(SafelightError):
            revision(text, 0.3)


@pytest.mark.parametrize(
    ("source", "before", "selected", "found"),
    [
        ("The **grey** sea, the grey sky.", "The grey sea, the ", "grey", "grey"),
        ("The **grey** sea.", "", "The grey", "The **grey"),
        ("# Title\n\n- one\n- two, three", "Title\none\n", "two, three", "two, three"),
        ("It is so. And so.", "It is so. ", "And so.", "And so."),
        ("a [link](http://x.y) b, b c", "a link ", "b", None),
        ("a [link](http://x.y) behind", "a link ", "behind", "behind"),
    ],
)
def test_a_selection_is_found_in_its_markdown(source: str, before: str, selected: str, found: str | None) -> None:
    span = source_span(source, before, selected)
    assert (None if span is None else source[slice(*span)]) == found
    if span is not None and source.count(selected) > 1:
        assert span[0] == source.rindex(selected)


def test_accepted_changes_make_a_text_and_all_or_none_make_either() -> None:
    old, new = "The sea is grey and cold today.", "The sea is blue and cold this morning."
    parts = differences(old, new)
    first, second = places_of_changes(parts)
    assert (parts[first].old, parts[first].new) == ("grey", "blue")
    assert merged(parts, {first}) == "The sea is blue and cold today."
    assert merged(parts, {second}) == "The sea is grey and cold this morning."


def test_differences_of_any_texts_bring_both_back() -> None:
    draw = random.Random(4)
    for _ in range(200):
        old, new = ("".join(draw.choices("ab .\n", k=draw.randint(0, 30))) for _ in range(2))
        parts = differences(old, new)
        assert merged(parts, set(places_of_changes(parts))) == new
        assert merged(parts, ()) == old
    long = " ".join(["word"] * 3_000)
    parts = differences(f"{long}\nend", f"{long}\nother")
    assert merged(parts, set(places_of_changes(parts))) == f"{long}\nother"
