"""Sums and sorts that a model answered in its own words."""

from __future__ import annotations

import pytest

from engine.tasks.checking import missing


@pytest.mark.parametrize(
    ("prompt", "answer", "right"),
    [
        ("17 * 23", "The number 17 multiplied by itself is 49.", "391"),
        ("17*23", "17 * 23 = 391.", ""),
        ("What is 1234 plus 88?", "1234 + 88 = 900\n\nSo, 1234 + 88 equals 1002.", "1322"),
        ("what's 1,234 plus 88", "It is 1,322.", ""),
        ("Please calculate 12 x 12.", "144", ""),
        ("What is 7 divided by 2?", "The answer is 3.", "3.5"),
        ("add 5 and 6", "5 and 6 make 12.", "11"),
        ("What is 3 - 10?", "-7", ""),
        ("(2 + 3) × 4 =", "14", "20"),
        ("sort these words: pear, fig, apple", "Pear, fig and apple are fruits.", "apple, fig, pear"),
        ("sort these words: pear, fig, apple", "Here they are:\n1. Apple\n2. Fig\n3. Pear", ""),
        ("Please sort these names: Zoe, Adam, Mia", "Zoe, Adam, Mia.", "Adam, Mia, Zoe"),
        ("Sort 9 4 7 2 6.", "9 7 6 4 2", "2 4 6 7 9"),
        ("Sort the numbers 10, 9 and 8", "8, 9, 10", ""),
    ],
)
def test_a_wrong_result_is_named(prompt: str, answer: str, right: str) -> None:
    assert missing(prompt, answer) == right


@pytest.mark.parametrize(
    "prompt",
    [
        "Call 555-1234",
        "2026-11-28",
        "1.2.3",
        "42",
        "What is love?",
        "1 / 0",
        "Sort the letters of jewel",
        "Sort these words in reverse order: fig, apple",
        "Sort these names: New York, Rome",
        "sort this out, please, and write to me",
        "9" * 300 + " + 1",
        "",
    ],
)
def test_what_no_program_knows_is_not_judged(prompt: str) -> None:
    assert missing(prompt, "something") == ""
