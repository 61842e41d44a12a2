"""What is said of a small model's answer that cannot be relied on, and of what the model does not read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.chat.words import doubt
from app.state.chat.conversation import Answer
from app.window.main_window import MainWindow
from engine import BASE, SKILLS, SUDOKU, TOOLS, GenerationConfig
from engine.catalog import TALK
from engine.service.small import TASKS
from engine.tasks import skills
from tests.fake_engine import FakeEngine


def answered(text: str, model: str = SKILLS, adapter: str | None = None) -> Answer:
    answer = Answer(model, 1, GenerationConfig(), model=model, adapter=adapter)
    answer.status, answer.text = "done", text
    return answer


@pytest.mark.parametrize(
    ("prompt", "text", "said"),
    [
        ("What is 47 + 5?", "52", ""),
        ("What is 47 + 5?", "5a", "it should be “52”"),
        ("Times table of 8 up to 10.", "8 x 1 = 9", "this is wrong. Its"),
        ("What is the capital of France?", "aablrs", "never learned the words “capital”, “france”:"),
        ("Ik vind dit een heel mooi canvas", "a", "“ik”, “vind”, “dit”, “een” and more:"),
    ],
)
def test_what_a_model_of_skills_cannot_know_is_said(prompt: str, text: str, said: str) -> None:
    for model in (SKILLS, BASE):
        found = doubt(prompt, answered(text, model))
        assert (found is None) == (not said)
        if found is not None:
            assert said in found.text
            assert len(found.nearest) == 3
            assert all(skills.solve(near.prompt) for near in found.nearest)


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
    for prompt, right, taught in (("17 * 23", "391", ""), ("What is 47 + 5?", "52", TASKS)):
        found = doubt(prompt, answered("It is 49.", TALK.id))
        assert found is not None
        assert (found.text, found.taught, found.nearest) == (said.format(right), taught, ())
        assert doubt(prompt, answered(f"It is {right}.", TALK.id)) is None


def test_of_other_models_and_of_answers_under_way_nothing_is_said() -> None:
    assert doubt("Wie geht es dir heute?", answered("x", "/models/large")) is None
    assert doubt("Say hi", answered("x", "/models/large")) is None
    assert doubt("0" * 81, answered("x", SUDOKU)) is None
    assert doubt("0" * 81, answered("x", BASE, "sudoku-lora")) is None
    assert doubt("What time is it in Rome?", answered("It is 14:05 in Rome.", TOOLS)) is None
    off = doubt("What time is it in Rome?", answered("I have no tool for that.", TOOLS))
    assert off is not None
    assert "adds the example tools" in off.text
    assert not off.nearest
    assert doubt("Reverse the word fig.", answered("gfi", TOOLS)) is not None
    assert doubt("What is 47 + 5?", answered("77", TOOLS)) is not None
    under_way = answered("")
    under_way.status = "developing"
    assert doubt("Say hi", under_way) is None


def test_the_nearest_tasks_are_asked_with_a_click(
    qtbot: QtBot, open_window: Callable[..., MainWindow], fake: FakeEngine
) -> None:
    window = open_window(SKILLS)
    chat = window.pages.chat()
    chat.send("Write the times table of 8.")
    qtbot.waitUntil(lambda: window.context.session.active is None)
    view = chat.page.turns[0].answer
    assert view.nearest.isVisible()
    assert view.nearest.chips[0] in view.tab_stops()
    assert "what it wrote is a guess" in view.remarks.text()
    view.nearest.chips[0].click()
    qtbot.waitUntil(lambda: window.context.session.active is None)
    assert fake.prompts[-1][-1]["content"] == view.nearest.prompts[0] == "Times table of 8 up to 10."


def test_what_is_not_read_is_said_once_there_is_something_of_it(
    qtbot: QtBot, open_window: Callable[..., MainWindow]
) -> None:
    window = open_window(SKILLS)
    chat, context = window.pages.chat(), window.context
    assert context.model is not None
    assert context.model.reads_history  # the stand-in's template writes all
    context.model = replace(context.model, reads_history=False, reads_system=False)
    context.model_changed.emit()
    composer = chat.page.composer
    assert composer.hint.text().startswith("Enter sends")  # there is nothing before it
    chat.send("Hello")
    qtbot.waitUntil(lambda: context.session.active is None)
    said = "This model reads only your last message: nothing before it, no system prompt"
    assert composer.hint.text() == said
    composer.meter.measure()
    qtbot.waitUntil(lambda: not composer.meter.is_counting)
    assert said in composer.meter.toolTip()
    context.session.begin()
    assert composer.hint.text().startswith("Enter sends")
