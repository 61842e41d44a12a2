"""Texts that count as repeating themselves, and what good answers repeat."""

from __future__ import annotations

import pytest

from engine.text.repeating import TIMES, repeats

LINE = "You can find it here: https://old.example/r/boats"


@pytest.mark.parametrize(
    "text",
    [
        f"{LINE}\n" * TIMES,
        "Here.\n\n" + f"{LINE}\n\n" * TIMES,
        f"{LINE}\n" * 9 + "You can",
        f"\t{LINE}\r\n" * TIMES,
        "これは同じ行です。\n" * TIMES,
    ],
)
def test_the_same_line_a_fifth_time_is_found(text: str) -> None:
    assert repeats(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{LINE}\n" * (TIMES - 1),
        f"{LINE}\n" * (TIMES - 1) + LINE,
        f"{LINE}\n" * TIMES + "It goes on.\nAnd on.\n",
        "pass\n" * 9,
        "</section>\n" * 9,
        "        [None, None, None, None],\n" * 9,
        "".join(f"{' ' * indent}end function\n" for indent in range(9, 0, -1)),
        "".join(f"{number}. The same words follow.\n" for number in range(1, 30)),
        "Row one is here\nRow two is here\n" * 9,
    ],
)
def test_what_good_answers_repeat_does_not_count(text: str) -> None:
    assert not repeats(text)
