"""Tool calls in the chat: asked for, run, and answered from, with a stand-in engine and a real server of tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.chat.messages.calls import CallView
from app.library.transfer import to_markdown
from engine.tools.declared import ToolServer
from engine.tools.tool import MAX_ROUNDS, REFUSED
from tests.app.chat.asking import answered, enter
from tests.fake_engine import END, LENGTH, FakeEngine, FakeTokenizer
from tests.written import written_run

PLAIN = Path(__file__).parents[2] / "engine" / "tools" / "plain_server.py"
SUMS = ToolServer("sums", sys.executable, ("-S", "-E", str(PLAIN)))
FIRST_SAID = 40  # tokens from here on stand for whole texts


def call(name: str, **arguments: int) -> str:
    inner = ",".join(f"{key}:{value}" for key, value in arguments.items())
    return f"<|tool_call>call:{name}{{{inner}}}<tool_call|>"


@pytest.fixture
def said(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the model writes, one a run; the last one again and again."""
    texts: list[str] = []
    piece = FakeTokenizer.piece

    def generate(*_args: Any) -> Iterator[Any]:
        place = min(len(fake.seeds), len(texts) - 1)
        fake.seeds.append(0)
        yield from written_run([FIRST_SAID + place, END], LENGTH)

    def written(self: FakeTokenizer, token: int) -> str:
        return texts[token - FIRST_SAID] if FIRST_SAID <= token < FIRST_SAID + len(texts) else piece(self, token)

    monkeypatch.setattr(fake, "generate", generate)
    monkeypatch.setattr(FakeTokenizer, "piece", written)
    return texts


@pytest.fixture
def chat(qtbot: QtBot, open_chat: Callable[..., ChatController]) -> ChatController:
    made = open_chat()
    made._context.tools.set_servers((SUMS,))
    qtbot.waitUntil(lambda: made._context.tools.states[0].status == "ready", timeout=20_000)
    return made


def asking(qtbot: QtBot, chat: ChatController) -> CallView:
    """Waits for the call that needs a decision."""

    def waiting() -> list[CallView]:
        return [view for view in chat.page.findChildren(CallView) if view.call.status == "asking" and view.isVisible()]

    qtbot.waitUntil(lambda: bool(waiting()), timeout=20_000)
    return waiting()[0]


def test_a_call_waits_for_leave_and_the_answer_goes_on_from_its_result(
    qtbot: QtBot, chat: ChatController, fake: FakeEngine, said: list[str]
) -> None:
    said += ["Let me add. " + call("add", first=2, second=40), "It is 42."]
    enter(qtbot, chat, "What is 2 + 40?")
    view = asking(qtbot, chat)
    assert view.line.text() == "add(first: 2, second: 40)"
    assert view.state.text() == "waits for your decision"
    assert {tool["function"]["name"] for tool in fake.requests[0].tools} >= {"add", "fail"}
    output_format = fake.requests[0].output_format
    assert output_format is not None
    assert output_format.may_be_text
    assert {tool["name"] for tool in output_format.tools} >= {"add", "fail"}
    view.once.click()
    [answer] = answered(qtbot, chat)
    assert (answer.text, answer.status) == ("It is 42.", "done")
    [made] = answer.rounds
    assert (made.text, made.calls[0].result, made.calls[0].status) == ("Let me add.", "42", "done")
    assert made.trace is not None
    assert answer.trace is not None
    asked, called, result = fake.requests[1].messages
    assert asked["content"] == "What is 2 + 40?"
    assert called["tool_calls"][0]["function"] == {"name": "add", "arguments": {"first": 2, "second": 40}}
    assert (result["role"], result["name"], result["content"]) == ("tool", "add", "42")
    assert not view.asked.isVisible()
    assert view.line.text() == "add(first: 2, second: 40) → 42"
    view.fold.click()
    assert view.result.isVisible()
    view.inspect.click()
    assert chat._context.navigator.calls == [("inspect", made.trace, -1)]  # type: ignore[attr-defined]

    enter(qtbot, chat, "Thanks.")
    answered(qtbot, chat, 2)
    roles = [message["role"] for message in fake.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_leave_for_always_is_kept_and_a_refusal_is_reported_to_the_model(
    qtbot: QtBot, chat: ChatController, said: list[str]
) -> None:
    said += [call("add", first=1, second=2) + call("fail"), call("add", first=3, second=4), "Done."]
    enter(qtbot, chat, "Add.")
    asking(qtbot, chat).always.click()
    qtbot.waitUntil(lambda: asking(qtbot, chat).call.called == "fail")
    asking(qtbot, chat).refuse.click()
    [answer] = answered(qtbot, chat)
    first, second = answer.rounds
    assert [(one.called, one.status, one.result) for one in first.calls] == [
        ("add", "done", "3"),
        ("fail", "refused", REFUSED),
    ]
    assert second.calls[0].result == "7"  # without a question
    assert chat._context.tools.leave.always == {SUMS.identity: frozenset({"add"})}


def test_wrong_calls_are_reported_to_the_model_and_not_run_and_have_an_end(
    qtbot: QtBot, chat: ChatController, said: list[str]
) -> None:
    said.append(call("remove_all"))
    enter(qtbot, chat, "Add.")
    [answer] = answered(qtbot, chat)
    assert len(answer.rounds) == MAX_ROUNDS
    assert answer.status == "done"
    [one] = answer.rounds[0].calls
    assert (one.status, one.result) == ("failed", "There is no tool called remove_all.")


@pytest.mark.parametrize("is_running", [False, True], ids=["asking", "running"])
def test_stop_ends_a_call(qtbot: QtBot, chat: ChatController, said: list[str], is_running: bool) -> None:
    said += [call("wait", seconds=30), "Never."]
    enter(qtbot, chat, "Wait.")
    view = asking(qtbot, chat)
    if is_running:
        view.once.click()
        assert view.state.text() == "is running"
    chat.stop()
    [answer] = answered(qtbot, chat)
    assert answer.status == "stopped"
    assert answer.rounds[0].calls[0].status == "refused"
    assert not view.asked.isVisible()


def test_another_model_does_not_finish_an_answer_that_waits_for_a_call(
    qtbot: QtBot, chat: ChatController, said: list[str]
) -> None:
    said += [call("add", first=2, second=40), "Never."]
    enter(qtbot, chat, "What is 2 + 40?")
    asking(qtbot, chat)
    context = chat._context
    context.load("other")
    [answer] = answered(qtbot, chat)
    assert answer.status == "stopped"
    assert answer.text == ""
    qtbot.waitUntil(lambda: context.model is not None)


def test_calls_are_stored_and_shown_again(qtbot: QtBot, chat: ChatController, said: list[str]) -> None:
    said += ["First. " + call("add", first=2, second=40), "It is 42."]
    enter(qtbot, chat, "What is 2 + 40?")
    asking(qtbot, chat).once.click()
    answered(qtbot, chat)
    session = chat._context.session
    opened = session._stored.open(session.conversation)
    whole = session._stored.whole(opened)
    page = to_markdown(whole)
    assert "Call of a tool: add" in page
    assert page.index("First.") < page.index("Call of a tool") < page.index("It is 42.")
    [made] = opened.turns[0].answer.rounds
    [one] = made.calls
    assert (made.text, one.called, one.arguments, one.result, one.status) == (
        *("First.", "add", {"first": 2, "second": 40}, "42", "done"),
    )


def test_a_model_whose_template_writes_no_tools_is_offered_none(
    qtbot: QtBot, chat: ChatController, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fake_engine.written", lambda messages, *_, **__: messages[-1]["content"])
    chat._context.load(chat._context.slot.present)
    qtbot.waitUntil(lambda: chat._context.loading is None)
    enter(qtbot, chat, "Hello.")
    answered(qtbot, chat)
    assert fake.requests[-1].tools == ()


def test_the_meter_counts_the_tools_that_are_offered(qtbot: QtBot, chat: ChatController) -> None:
    meter, tools = chat.page.composer.meter, chat._context.tools
    chat.page.composer.edit.set_text("a b c")

    def counted() -> int:
        return 0 if meter.fit is None or meter.is_counting else meter.fit.tokens

    qtbot.waitUntil(lambda: counted() > 3, timeout=20_000)
    tools.set_servers(())
    qtbot.waitUntil(lambda: counted() == 3, timeout=20_000)


def test_the_question_names_the_server_and_shows_what_is_hidden(
    qtbot: QtBot, chat: ChatController, said: list[str]
) -> None:
    said += [
        '<tool_call>{"name": "add", "arguments": {"first": 1, "second": 2, "x": "/home\\u200b\\u202e"}}</tool_call>'
    ]
    enter(qtbot, chat, "Add.")
    view = asking(qtbot, chat)
    question = view.question.text()
    assert question.startswith("The model wants to call add of the server sums (")
    assert str(PLAIN) in question
    assert view.question.textFormat() == Qt.TextFormat.PlainText
    assert view.line.text() == 'add(first: 1, second: 2, x: "/home⟨U+200B⟩⟨U+202E⟩")'
    assert "/home⟨U+200B⟩⟨U+202E⟩" in view.arguments.text()
    chat.stop()


OTHER = ToolServer("sums", sys.executable, (*SUMS.args, "other"))


def test_a_call_ends_if_another_server_took_the_name_while_it_waited(
    qtbot: QtBot, chat: ChatController, said: list[str]
) -> None:
    said += [call("add", first=2, second=40), "I see."]
    enter(qtbot, chat, "Add.")
    view = asking(qtbot, chat)
    toolbox = chat._context.tools
    toolbox.set_servers((OTHER,))
    view.always.click()
    [one] = answered(qtbot, chat)[0].rounds[0].calls
    assert (one.status, one.result) == ("failed", "The tool add is not offered any more.")
    assert toolbox.leave.always == {}
