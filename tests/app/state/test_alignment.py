"""Letters on the page are found in the text with its markup."""

from __future__ import annotations

import pytest

from app.state.run.alignment import Alignment, utf16


@pytest.mark.parametrize(
    ("written", "shown", "unfound"),
    [
        ("5 x 1 = 5\n5 x 2 = 10", "5 x 1 = 5\u20285 x 2 = 10", ""),
        ("# One **bold** and un*believ*able\n\n- `a-b`", "One bold and unbelievable\u2029a-b", ""),
        ("[here](https://a.example/there) then", "here then", ""),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "\na\nb\n1\n2\n", ""),
        ("say \U0001f600 *now*", "say \U0001f600 now", ""),
        ("$$x^2$$ is drawn", "\ufffc is drawn", "\ufffc"),
        (", 4, 5", "1, 2, 3, 4, 5", "1,23"),  # what was there before is not found
        ("sk. Ask", "a small task. Ask", "asmlt"),  # the word was begun in another block
        ("nothing", "", ""),
    ],
)
def test_what_is_found_is_the_same_letter_in_order(written: str, shown: str, unfound: str) -> None:
    found = list(Alignment(written).places(shown))[::-1]
    here, there = [place for place, _ in found], [place for _, place in found]
    assert [utf16(shown)[place] for place in here] == [utf16(written)[place] for place in there]
    assert (here, there) == (sorted(set(here)), sorted(set(there)))
    lost = {place for place, unit in enumerate(utf16(shown)) if not unit.isspace()} - set(here)
    assert {utf16(shown)[place] for place in lost} <= set(unfound)


def test_a_word_in_an_address_is_not_the_word_before_it() -> None:
    written = "[text](http://context.example) then"
    assert dict(Alignment(written).places("text then"))[0] == written.index("text")


def test_stretches_are_asked_for_from_the_last_on() -> None:
    alignment = Alignment("a b a b")
    assert list(alignment.places("b")) == [(0, 6)]
    assert list(alignment.places("a b a")) == [(4, 4), (2, 2), (0, 0)]


def test_a_long_text_that_was_there_before_costs_nothing() -> None:
    alignment = Alignment("end")
    assert list(alignment.places("x " * 50_000 + "end"))[-1] == (100_000, 0)
