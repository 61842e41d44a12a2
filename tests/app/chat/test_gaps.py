"""Texts with gaps and changed answers on the chat page, with a stand-in engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.state.chat.rewriting import revision
from engine import GAPS, SafelightError
from engine.text.outline import Hole
from tests.app.chat.asking import answered, enter

GAPPED = "The sea is [[…]] today."


@pytest.fixture
def chat(open_chat: Callable[..., ChatController]) -> ChatController:
    return open_chat(GAPS)


def test_what_is_above_the_line_is_the_prompt_and_files_go_with_it(
    qtbot: QtBot, chat: ChatController, fake: Any
) -> None:
    chat.page.composer.attach_text("The file says blue.")
    enter(qtbot, chat, f"About the weather.\n---\n{GAPPED}")
    answered(qtbot, chat)
    request = fake.requests[-1]
    content = request.messages[-1]["content"]
    assert "The file says blue." in content
    assert content.endswith("About the weather.")
    assert request.outline == ("The sea is ", Hole(), " today.")
    assert request.config.max_new_tokens % 8 == 0
    assert not request.think


def test_too_long_a_gap_is_said_and_the_draft_stays(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    enter(qtbot, chat, "A [[9999 words]] gap.")
    composer = chat.page.composer
    assert composer.hint.text().startswith("a gap has 1 to 2,048 words or tokens")
    assert composer.text == "A [[9999 words]] gap."
    assert not fake.requests
    assert not chat._context.session.chat.turns


def test_a_model_that_writes_word_by_word_gets_the_text_as_it_is(
    qtbot: QtBot, open_chat: Callable[..., ChatController], fake: Any
) -> None:
    fake.decoders = ("autoregressive",)
    chat = open_chat(GAPS)
    chat.page.composer.set_text(GAPPED)
    assert "gap" not in chat.page.composer.hint.text()
    enter(qtbot, chat, GAPPED)
    answered(qtbot, chat)
    assert fake.requests[-1].outline == ()
    assert fake.requests[-1].messages[-1]["content"] == GAPPED


def test_again_writes_a_changed_answer_in_the_same_manner(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    enter(qtbot, chat, "Hello.")
    answered(qtbot, chat)
    session = chat._context.session
    (turn,) = session.chat.turns
    first = turn.answer.text
    chat.commands.rewrite(turn, revision(first, 0.5))
    answered(qtbot, chat)
    assert fake.requests[-1].outline == (first,)
    chat.commands.again(turn)
    answered(qtbot, chat)
    assert (fake.requests[-1].outline, fake.requests[-1].noise) == ((first,), 0.5)
    assert fake.seeds[-1] != fake.seeds[-2]
    session.choose_answer(turn, 0)
    chat.commands.again(turn)
    answered(qtbot, chat)
    assert fake.requests[-1].outline == ()


def test_a_persons_own_version_needs_an_idle_conversation(qtbot: QtBot, chat: ChatController, fake: Any) -> None:
    enter(qtbot, chat, "Hello.")
    answered(qtbot, chat)
    session = chat._context.session
    (turn,) = session.chat.turns
    fake.hold = True
    chat.commands.again(turn)
    qtbot.waitUntil(lambda: session.active is not None)
    with pytest.raises(SafelightError, match="being written"):
        session.put(turn, "mine")
    fake.hold = False
    fake.gate.release(10)
    answered(qtbot, chat)
    session.put(turn, "mine")
    assert [answer.text for answer in turn.answers.items][-1] == "mine"
    assert not turn.answer.has_trace
