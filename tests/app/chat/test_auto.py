"""The small models as one in the chat: each prompt goes to the part that was made for it, and nothing is loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.session.model_slot import ModelChoice
from app.state.chat.attachment import Attachment
from engine import BASE, GAPS, MINI, SUDOKU, catalog
from engine.catalog import SMALL, TALK
from engine.tasks import sudoku
from engine.text.outline import Hole
from tests.app.chat.asking import answered, enter

OWN_WORDS = "Write a short poem about the sea."
TASK = "count from 3 to 9"
PUZZLE = sudoku.generate(random.Random(1), 40, 40).board


@pytest.fixture(autouse=True)
def without_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the fixture of all others: here Talk is installed."""
    monkeypatch.setattr(catalog.PackagedModel, "is_here", True)


@pytest.fixture
def chat(open_chat: Callable[..., ChatController]) -> ChatController:
    return open_chat(SMALL)


def models(qtbot: QtBot, chat: ChatController, turns: int = 1) -> list[str]:
    """Waits for so many turns, and returns the models of their answers."""
    return [answer.model for answer in answered(qtbot, chat, turns)]


def test_each_prompt_goes_to_its_part(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    context, composer = chat._context, chat.page.composer
    model = context.model
    assert OWN_WORDS in chat.page.welcome.suggestions.prompts
    for count, prompt in enumerate((OWN_WORDS, TASK, PUZZLE, OWN_WORDS), 1):
        enter(qtbot, chat, prompt)
        answered(qtbot, chat, count)
        assert composer.is_empty
        if count == 2:
            assert context.session.chat.turns[-1].prompt == TASK  # as it was written
            assert fake.prompts[-1][-1]["content"] == "Count from 3 to 9."  # as it was taught
    assert models(qtbot, chat, 4) == [TALK.id, MINI, SUDOKU, TALK.id]
    assert [view.answer.speaker.text() for view in chat.page.turns][-1] == "Safelight Talk"
    asked = [message["content"] for message in fake.prompts[-1] if message["role"] == "user"]
    assert asked == [OWN_WORDS, OWN_WORDS]  # what the others wrote would lead Talk astray
    assert context.model is model


def test_a_file_that_holds_one_puzzle_needs_no_words(qtbot: QtBot, chat: ChatController) -> None:
    composer = chat.page.composer
    composer.files.set_attachments((Attachment("puzzle.txt", PUZZLE),))
    composer.send.click()
    assert models(qtbot, chat) == [SUDOKU]
    assert chat._context.session.chat.turns[0].prompt == sudoku.to_prompt(PUZZLE)


def test_a_text_with_gaps_and_what_is_revised_go_to_the_part_that_fills_them(
    qtbot: QtBot, chat: ChatController, fake: Any
) -> None:
    enter(qtbot, chat, "Dear [[…]], the sea is [[2 words]].")
    assert models(qtbot, chat) == [GAPS]
    request = fake.requests[-1]
    assert [message["content"] for message in request.messages] == ["Fill in the gap."]
    assert request.outline == ("Dear ", Hole(), ", the sea is ", Hole(2), ".")
    enter(qtbot, chat, OWN_WORDS)
    answered(qtbot, chat, 2)
    written, chosen = (view.answer for view in chat.page.turns)
    assert written.revise.isVisibleTo(written)
    assert not chosen.revise.isVisibleTo(chosen)  # no part that revises wrote it
    written.changing.open_panel()
    panel = written.changing.panel
    assert panel is not None
    panel.revise.click()
    qtbot.waitUntil(lambda: len(written.turn.answers) == 2 and chat._context.session.active is None)
    assert (fake.requests[-1].noise, written.turn.answer.model) == (0.3, GAPS)


def test_another_part_is_asked_instead_and_its_answer_is_a_version(qtbot: QtBot, chat: ChatController) -> None:
    enter(qtbot, chat, TASK)
    answered(qtbot, chat)
    view = chat.page.turns[0].answer
    tasks = catalog.title(MINI)
    (act,) = view.others.menu().actions()
    assert act.text() == "Ask Safelight Talk instead"
    act.trigger()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 2)
    assert models(qtbot, chat) == [TALK.id]
    assert view.versions.place.text() == "2/2"
    assert [act.text() for act in view.others.menu().actions()] == [f"Ask {tasks} instead"]
    chat.commands.again(chat._session.chat.turns[-1])  # by the one that wrote it
    qtbot.waitUntil(lambda: len(view.turn.answers) == 3)
    assert models(qtbot, chat) == [TALK.id]
    view.turn.prompt, view.turn.answer.text = "Sort 9 4 3.", "3 9 4"
    view.refresh()
    assert view.remarks.text() == "Checked by a program: this is wrong, it should be “3 4 9”."
    assert view.taught.text() == f"Ask {tasks}"
    view.taught.click()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 4)
    assert models(qtbot, chat) == [MINI]
    assert not view.taught.isVisible()
    chat.commands.edit(view.turn, "Spell banana")
    qtbot.waitUntil(lambda: chat._context.session.chat.turns[0].prompt == "Spell banana")
    assert models(qtbot, chat) == [MINI]


def test_after_a_single_model_the_small_ones_can_be_asked_and_stay(qtbot: QtBot, chat: ChatController) -> None:
    context = chat._context
    context.load(BASE)
    qtbot.waitUntil(lambda: context.slot.choice == ModelChoice(BASE))
    enter(qtbot, chat, TASK)
    assert models(qtbot, chat) == [BASE]
    view = chat.page.turns[0].answer
    (act,) = view.others.menu().actions()
    assert act.text() == "Ask Small models instead"
    act.trigger()
    qtbot.waitUntil(lambda: len(view.turn.answers) == 2)
    assert models(qtbot, chat) == [MINI]
    assert context.slot.choice == ModelChoice(SMALL)


def test_a_line_under_the_field_says_what_talk_is_and_links_larger_models(qtbot: QtBot, chat: ChatController) -> None:
    composer = chat.page.composer
    assert composer.hint.text() == "Safelight Talk has 135 million parameters: fluent, often wrong."
    composer.larger.click()
    assert chat._context.navigator.calls == [("show_page", "models")]  # type: ignore[attr-defined]
    chat._context.load(MINI)
    qtbot.waitUntil(lambda: chat._context.slot.choice == ModelChoice(MINI))
    assert not composer.larger.isVisible()
    assert composer.hint.text().startswith("Enter sends")
