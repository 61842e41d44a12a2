"""Prompts in the wording of the training texts."""

from __future__ import annotations

import pytest

from engine.tasks import skills
from engine.tasks.wording import is_taught, normal


def test_all_examples_are_taught() -> None:
    assert all(map(is_taught, skills.examples()))


@pytest.mark.parametrize(
    ("written", "taught"),
    [
        ("hi", "Hi"),
        ("HI ", "Hi"),
        ("  what   is your name", "What is your name?"),
        ("Hello!", "Hello"),
        ("count from 3 to 9", "Count from 3 to 9."),
        ("COUNT FROM 3 TO 9!", "Count from 3 to 9."),
        ("Count  up from 3 to 9 .", "Count from 3 to 9."),
        ("times table of 7", "Times table of 7 up to 10."),
        ("spell “banana”", "Spell banana."),
        ('Reverse the word "Robot"', "Reverse the word Robot."),
        ("reverse the word robot?", "Reverse the word robot."),
        ("12+3=", "What is 12 + 3?"),
        ("as json: fig,pear", "As JSON: fig, pear"),
        ("continue 2 4 6 8.", "Continue 2 4 6 8"),
        ("mia comes 1 days after tuesday. when", "Mia comes 1 day after Tuesday. When?"),
        ("Fill in: leo had 9 eggs, won 6, now has _", "Fill in: Leo had 9 eggs, won 6, now has _."),
        ("convert 3 KM to M", "Convert 3 km to m."),
        ("say Sixty-Four in digits", "Write sixty-four in digits."),
    ],
)
def test_a_task_is_brought_to_the_wording_of_the_training_texts(written: str, taught: str) -> None:
    assert normal(written) == taught
    assert is_taught(written)
    assert normal(taught) == taught


@pytest.mark.parametrize("prompt", ["What is the capital of France?", " Say “hello”  to me ", "COUNT TO TEN", ""])
def test_other_prompts_stay_as_they_are(prompt: str) -> None:
    assert normal(prompt) == prompt
    assert not is_taught(prompt)
