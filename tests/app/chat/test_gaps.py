"""Texts with gaps and changed answers on the chat page, with a stand-in engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController, build
from app.context import AppContext
from app.state.chat.rewriting import revision
from engine import GAPS, SafelightError
from engine.text.outline import Hole

GAPPED = "The sea is [[…]] today."


@pytest.fixture
def open_chat(qtbot: QtBot, open_context: Callable[..., AppContext]) -> Callable[[], ChatController]:
    def open_one() -> ChatController:
        controller = build(open_context(GAPS))
        qtbot.addWidget(controller.widget)
        controller.widget.resize(1000, 700)
        controller.widget.show()
        return controller

    return open_one


def ask(qtbot: QtBot, chat: ChatController, text: str) -> None:
    edit = chat.page.composer.edit
    edit.set_text(text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def idle(qtbot: QtBot, chat: ChatController, turns: int = 1) -> None:
    session = chat._context.session
    qtbot.waitUntil(lambda: len(session.chat.turns) == turns and session.active is None)


def test_what_is_above_the_line_is_the_prompt(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    chat = open_chat()
    ask(qtbot, chat, f"About the weather.\n---\n{GAPPED}")
    idle(qtbot, chat)
    request = fake.requests[-1]
    assert request.messages[-1]["content"] == "About the weather."
    assert request.outline == ("The sea is ", Hole(), " today.")
    assert request.config.max_new_tokens % 8 == 0
    assert not request.think


def test_files_go_with_a_text_with_gaps(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    chat = open_chat()
    chat.page.composer.attach_text("The file says blue.")
    ask(qtbot, chat, GAPPED)
    idle(qtbot, chat)
    content = fake.requests[-1].messages[-1]["content"]
    assert "The file says blue." in content
    assert content.endswith("Fill in the gap.")


def test_too_long_a_gap_is_said_and_the_draft_stays(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    chat = open_chat()
    ask(qtbot, chat, "A [[9999 words]] gap.")
    composer = chat.page.composer
    assert composer.hint.text().startswith("a gap has 1 to 2,048 words or tokens")
    assert composer.text == "A [[9999 words]] gap."
    assert not fake.requests
    assert not chat._context.session.chat.turns


def test_a_model_that_writes_word_by_word_gets_the_text_as_it_is(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    fake.decoders = ("autoregressive",)
    chat = open_chat()
    chat.page.composer.set_text(GAPPED)
    assert "gap" not in chat.page.composer.hint.text()
    ask(qtbot, chat, GAPPED)
    idle(qtbot, chat)
    assert fake.requests[-1].outline == ()
    assert fake.requests[-1].messages[-1]["content"] == GAPPED


def test_again_writes_a_changed_answer_in_the_same_manner(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    chat = open_chat()
    ask(qtbot, chat, "Hello.")
    idle(qtbot, chat)
    session = chat._context.session
    (turn,) = session.chat.turns
    first = turn.answer.text
    chat.commands.rewrite(turn, revision(first, 0.5))
    idle(qtbot, chat)
    assert fake.requests[-1].outline == (first,)
    chat.commands.again(turn)
    idle(qtbot, chat)
    assert (fake.requests[-1].outline, fake.requests[-1].noise) == ((first,), 0.5)
    assert fake.seeds[-1] != fake.seeds[-2]
    session.choose_answer(turn, 0)
    chat.commands.again(turn)
    idle(qtbot, chat)
    assert fake.requests[-1].outline == ()


def test_a_persons_own_version_needs_an_idle_conversation(qtbot: QtBot, open_chat: Any, fake: Any) -> None:
    chat = open_chat()
    ask(qtbot, chat, "Hello.")
    idle(qtbot, chat)
    session = chat._context.session
    (turn,) = session.chat.turns
    fake.hold = True
    chat.commands.again(turn)
    qtbot.waitUntil(lambda: session.active is not None)
    with pytest.raises(SafelightError, match="being written"):
        session.put(turn, "mine")
    fake.hold = False
    fake.gate.release(10)
    idle(qtbot, chat)
    session.put(turn, "mine")
    assert [answer.text for answer in turn.answers.items][-1] == "mine"
    assert not turn.answer.has_trace
