"""Letters on the page are found in the text with its markup."""

from __future__ import annotations

import pytest

from app.state.run.alignment import Alignment, utf16


@pytest.mark.parametrize(
    ("written", "shown", "unfound"),
    [
        ("5 x 1 = 5\n5 x 2 = 10", "5 x 1 = 5\u20285 x 2 = 10", 0),
        ("# One **bold** and un*believ*able\n\n- `a-b`", "One bold and unbelievable\u2029a-b", 0),
        ("[here](https://a.example/there) then", "here then", 0),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "\ufdd0a\u2029b\u20291\u20292\ufdd1", 0),
        ("say \U0001f600 *now*", "say \U0001f600 now", 0),
        ("$$x^2$$ is drawn", "\ufffc is drawn", 1),
        ("nothing", "else", 1),
    ],
)
def test_what_is_found_is_the_same_letter_in_order(written: str, shown: str, unfound: int) -> None:
    found = Alignment(written).places(shown)
    assert all(utf16(shown)[here] == utf16(written)[there] for here, there in found)
    assert [there for _, there in found] == sorted({there for _, there in found})
    letters = sum(not unit.isspace() and unit not in "\ufdd0\ufdd1" for unit in utf16(shown))
    assert letters - len(found) <= (4 if unfound else 0)


def test_a_word_in_an_address_is_not_the_word_after_it() -> None:
    written = "[text](http://example.com) then 5"
    assert dict(Alignment(written).places("text then 5"))[5] == written.index("then")


def test_stretches_go_on_where_the_last_one_ended() -> None:
    alignment = Alignment("a b a b", at=2)
    assert alignment.places("b") == [(0, 2)]
    assert alignment.places("a b") == [(0, 4), (2, 6)]
