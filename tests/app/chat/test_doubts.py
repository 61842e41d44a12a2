"""Remarks on a small model's answer that cannot be relied on."""

from __future__ import annotations

import pytest

from app.chat.words import doubt
from app.state.chat.conversation import Answer
from engine import BASE, GAPS, MINI, SUDOKU, GenerationConfig
from engine.catalog import TALK


def answered(text: str, model: str = MINI, adapter: str | None = None) -> Answer:
    answer = Answer(model, 1, GenerationConfig(), model=model, adapter=adapter)
    answer.status, answer.text = "done", text
    return answer


@pytest.mark.parametrize(
    ("prompt", "text", "said"),
    [
        ("What is 47 + 5?", "52", ""),
        ("What is 47 + 5?", "5a", "it should be “52”"),
        ("Times table of 8 up to 10.", "8 x 1 = 9", "this is wrong."),
        ("What is the capital of France?", "aablrs", "what it wrote is a guess"),
    ],
)
def test_what_a_model_of_skills_cannot_know_is_said(prompt: str, text: str, said: str) -> None:
    for model in (GAPS, BASE):
        found = doubt(prompt, answered(text, model))
        assert (found is None) == (not said)
        if found is not None:
            assert said in found.text


@pytest.mark.parametrize(
    ("prompt", "is_foreign"),
    [
        ("Wie geht es dir heute?", True),
        ("¿Cuál es la capital de Francia?", True),
        ("日本の首都はどこですか", True),
        ("What is the capital of France?", False),
        ("What does “ich liebe dich nicht” mean?", False),
        ("La La Land", False),
        ("def f(x): return x + 1", False),
    ],
)
def test_talk_says_that_it_writes_english_only(prompt: str, is_foreign: bool) -> None:
    found = doubt(prompt, answered("Der Hölig", TALK.id))
    said = "" if found is None else found.text
    assert said == ("Safelight Talk writes English only: to this prompt it can only guess." if is_foreign else "")


def test_sums_and_sorts_of_talk_are_checked_and_the_one_that_learned_them_is_named() -> None:
    said = "Checked by a program: this is wrong, it should be “{}”."
    for prompt, right, taught in (("17 * 23", "391", ""), ("What is 47 + 5?", "52", MINI)):
        found = doubt(prompt, answered("It is 49.", TALK.id))
        assert found is not None
        assert (found.text, found.taught) == (said.format(right), taught)
        assert doubt(prompt, answered(f"It is {right}.", TALK.id)) is None


def test_of_other_models_and_of_running_answers_nothing_is_said() -> None:
    assert doubt("Wie geht es dir heute?", answered("x", "/models/large")) is None
    assert doubt("0" * 81, answered("x", SUDOKU)) is None
    assert doubt("0" * 81, answered("x", BASE, "sudoku-lora")) is None
    assert doubt("What time is it in Rome?", answered("It is 14:05 in Rome.", MINI)) is None
    off = doubt("What time is it in Rome?", answered("I have no tool for that.", MINI))
    assert off is not None
    assert "adds the example tools" in off.text
    assert doubt("Reverse the word fig.", answered("gfi", MINI)) is not None
    running = answered("")
    running.status = "developing"
    assert doubt("Say hi", running) is None
