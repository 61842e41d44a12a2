"""The choice among the small models: each prompt goes to the one that was made for it, and it stays the choice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController, build
from app.context import AppContext, ModelChoice
from engine import BASE, GAPS, SKILLS, SUDOKU, catalog
from engine.catalog import AUTO, TALK
from engine.tasks import sudoku
from engine.text.outline import Hole

OWN_WORDS = "Write a short poem about the sea."
TASK = "count from 3 to 9"


@pytest.fixture(autouse=True)
def without_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the fixture of all others: here Talk is installed."""
    monkeypatch.setattr(catalog.PackagedModel, "is_here", True)


@pytest.fixture
def chat(qtbot: QtBot, open_context: Callable[..., AppContext]) -> ChatController:
    controller = build(open_context(AUTO))
    qtbot.addWidget(controller.widget)
    controller.widget.resize(1000, 700)
    controller.widget.show()
    return controller


def ask(qtbot: QtBot, chat: ChatController, text: str) -> None:
    edit = chat.page.composer.edit
    edit.setPlainText(text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def answered(qtbot: QtBot, chat: ChatController, count: int) -> list[str]:
    """Waits for so many turns, and returns the models of their answers."""
    session = chat._context.session
    qtbot.waitUntil(lambda: len(session.chat.turns) == count and session.active is None)
    return [turn.answer.model for turn in session.chat.turns]


def test_each_prompt_goes_to_its_model_which_is_loaded_for_it(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    context, composer = chat._context, chat.page.composer
    assert (context.choice, context.is_auto) == (ModelChoice(TALK.id), True)
    ask(qtbot, chat, OWN_WORDS)
    answered(qtbot, chat, 1)
    ask(qtbot, chat, TASK)
    assert context.loading is not None
    assert composer.text == TASK  # until its model is there
    answered(qtbot, chat, 2)
    assert composer.is_empty
    assert context.session.chat.turns[-1].prompt == TASK  # as it was written
    assert fake.prompts[-1][-1]["content"] == "Count from 3 to 9."  # as it was taught
    ask(qtbot, chat, sudoku.generate(random.Random(1), 40, 40).board)
    assert answered(qtbot, chat, 3) == [TALK.id, SKILLS, SUDOKU]
    assert not composer.meter.problem
    ask(qtbot, chat, OWN_WORDS)
    assert answered(qtbot, chat, 4)[-1] == TALK.id
    asked = [message["content"] for message in fake.prompts[-1] if message["role"] == "user"]
    assert asked == [OWN_WORDS, OWN_WORDS]  # what the others wrote would lead Talk astray
    assert context.is_auto
    assert not chat.notice.is_asking


def test_a_text_with_gaps_goes_to_the_model_that_fills_them(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    assert chat._context.choice == ModelChoice(TALK.id)
    ask(qtbot, chat, "Dear [[…]], the sea is [[2 words]].")
    assert answered(qtbot, chat, 1) == [GAPS]
    request = fake.requests[-1]
    assert [message["content"] for message in request.messages] == ["Fill in the gap."]
    assert request.outline == ("Dear ", Hole(), ", the sea is ", Hole(2), ".")
    ask(qtbot, chat, OWN_WORDS)
    answered(qtbot, chat, 2)
    written, chosen = (view.answer for view in chat.page.turns)
    assert written.revise.isVisibleTo(written)
    assert not chosen.revise.isVisibleTo(chosen)  # no model that revises wrote it
    written.changing.open_panel()
    panel = written.changing.panel
    assert panel is not None
    panel.revise.click()
    assert chat._context.loading is not None  # Gaps comes back for that
    qtbot.waitUntil(lambda: len(written.turn.answers) == 2 and chat._context.session.active is None)
    assert fake.requests[-1].noise == 0.3


def test_suggestions_are_a_mix_that_stays_and_finds_its_way(qtbot: QtBot, chat: ChatController) -> None:
    bar = chat.page.welcome.suggestions
    prompts = bar.prompts
    assert OWN_WORDS in prompts
    assert "Times table of 8 up to 10." in prompts
    chat.page.composer.edit.setPlainText("half a thought")
    bar.chips[prompts.index("Times table of 8 up to 10.")].click()
    assert chat._context.loading is not None
    assert bar.prompts == prompts
    assert answered(qtbot, chat, 1) == [SKILLS]
    assert chat.page.composer.text == "half a thought"


def test_another_model_is_asked_instead_and_its_answer_is_a_version(qtbot: QtBot, chat: ChatController) -> None:
    ask(qtbot, chat, TASK)
    answered(qtbot, chat, 1)
    view = chat.page.turns[0].answer
    assert view.speaker.text() == "Safelight Skills"
    assert view.others.isVisible()
    (act,) = view.others.menu().actions()
    assert act.text() == "Ask Safelight Talk instead"
    act.trigger()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 2)
    assert answered(qtbot, chat, 1) == [TALK.id]
    assert view.speaker.text() == "Safelight Talk"
    assert view.versions.place.text() == "2/2"
    assert [act.text() for act in view.others.menu().actions()] == ["Ask Safelight Skills instead"]
    chat.again_last()  # by the model that wrote it, and nothing is asked
    qtbot.waitUntil(lambda: len(view.turn.answers) == 3)
    assert answered(qtbot, chat, 1) == [TALK.id]
    view.versions.before.click()
    view.versions.before.click()
    assert view.speaker.text() == "Safelight Skills"
    chat.again_last()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 4)
    assert answered(qtbot, chat, 1) == [SKILLS]
    assert not chat.notice.is_asking


def test_a_chosen_model_is_loaded_again_after_another_was_asked_instead(qtbot: QtBot, chat: ChatController) -> None:
    context = chat._context
    context.load(BASE)
    qtbot.waitUntil(lambda: context.choice == ModelChoice(BASE))
    assert not context.is_auto
    ask(qtbot, chat, TASK)
    answered(qtbot, chat, 1)
    view = chat.page.turns[0].answer
    next(act for act in view.others.menu().actions() if "Talk" in act.text()).trigger()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 2)
    assert answered(qtbot, chat, 1) == [TALK.id]
    qtbot.waitUntil(lambda: context.choice == ModelChoice(BASE) and not context.is_borrowing)


def test_an_edited_prompt_is_for_another_model(qtbot: QtBot, chat: ChatController) -> None:
    ask(qtbot, chat, OWN_WORDS)
    answered(qtbot, chat, 1)
    chat.edit(chat._context.session.chat.turns[0], "Spell banana")
    qtbot.waitUntil(lambda: chat._context.session.chat.turns[0].prompt == "Spell banana")
    assert answered(qtbot, chat, 1) == [SKILLS]


def test_what_talk_is_and_the_way_to_larger_models_stand_under_the_field(qtbot: QtBot, chat: ChatController) -> None:
    composer = chat.page.composer
    assert composer.hint.text() == "Safelight Talk has 135 million parameters: fluent, often wrong."
    with qtbot.waitSignal(chat._context.page_asked) as asked:
        composer.larger.click()
    assert asked.args == ["models"]
    chat._context.load(SKILLS)
    qtbot.waitUntil(lambda: chat._context.choice == ModelChoice(SKILLS))
    assert not composer.larger.isVisible()
    assert composer.hint.text().startswith("Enter sends")
