"""What is known of a prompt that was not taught: its unknown words, and the tasks that it is nearest to."""

from __future__ import annotations

import pytest

from engine.tasks import skills
from engine.tasks.wording import is_taught, nearest, unknown_words


def test_all_examples_are_taught_and_have_no_unknown_words() -> None:
    for example in skills.examples():
        assert is_taught(example)
        assert unknown_words(example) == []


@pytest.mark.parametrize(
    ("prompt", "unknown", "near"),
    [
        ("Write the times table of 8.", [], "Times table of 8 up to 10."),  # another wording
        ("What is the capital of France?", ["capital", "france"], "Write owl in capitals."),
        ("Count to ten", ["ten"], "Count from 4 to 43."),
        ("Translate Translate Straße!", ["translate", "straße"], skills.suggestions()[0]),
        ("", [], skills.suggestions()[0]),
    ],
)
def test_a_prompt_that_was_not_taught(prompt: str, unknown: list[str], near: str) -> None:
    assert not is_taught(prompt)
    assert unknown_words(prompt) == unknown
    offered = nearest(prompt)
    assert near in offered
    assert len(set(offered)) == 3
    assert all(map(is_taught, offered))


def test_nearest_to_a_task_is_its_own_skill_but_not_itself() -> None:
    assert nearest("What is 2+2?", 1) == ["What is 47 + 5?"]
    assert "Spell banana." not in nearest("Spell banana.")
