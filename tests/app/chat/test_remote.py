"""A model that another machine runs, on the real chat page: its text as it comes, its thoughts folded, Stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.chat.controller import ChatController, build
from app.context import AppContext
from app.main import make_context
from app.state.chat.conversation import Answer
from app.state.run.stats import RunFigures
from engine.service import BackendRouter
from engine.service.remote import RemoteBackend
from tests.engine.hub.rude_server import Request, Rude
from tests.engine.service.remote.servers import SSE, chunk, events, models, serving
from tests.fake_engine import FakeEngine


class Slow:
    """A server that says one thing more each time it is let."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.has_gone = threading.Event()
        self.parts = [
            events(chunk({"reasoning": "Let me see."}), end=b""),
            events(chunk({"content": "It is **so**"}), end=b""),
            events(chunk({"content": " and more."}), end=b""),
            events(chunk({}, "stop"), chunk(usage={"prompt_tokens": 4, "completion_tokens": 40})),
        ]

    def answer(self, request: Request) -> None:
        head = ("HTTP/1.1 200 OK", *SSE, "Connection: close", "", "")
        request.send("\r\n".join(head).encode())
        try:
            for part in self.parts:
                while not self.gate.acquire(timeout=0.01):
                    request.send(b": ping\n\n")
                    if request.wait(0.0):
                        return
                request.send(part)
        except OSError:
            self.has_gone.set()


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def server(slow: Slow) -> Iterator[Rude]:
    with serving(v1_models=models("far/model"), v1_chat_completions=slow.answer) as server:
        yield server


@pytest.fixture
def context(qtbot: QtBot, server: Rude, settings: QSettings) -> Iterator[AppContext]:
    context = make_context(EngineLink(BackendRouter(FakeEngine(), RemoteBackend)), settings, None)
    context.load(f"{server.endpoint}/v1#far/model")
    qtbot.waitUntil(lambda: context.model is not None)
    yield context
    context.close()


@pytest.fixture
def chat(qtbot: QtBot, context: AppContext) -> ChatController:
    controller = build(context)
    qtbot.addWidget(controller.widget)
    controller.widget.show()
    return controller


def ask(context: AppContext, prompt: str = "How is it?") -> Answer:
    assert context.model is not None
    context.session.ask(prompt, (), context.model)
    return context.session.chat.turns[0].answer


def test_an_answer_is_read_while_it_comes(qtbot: QtBot, context: AppContext, chat: ChatController, slow: Slow) -> None:
    session, answer = context.session, ask(context)
    view = chat.page.turns[0].answer
    assert view.status.line.text() == "Reading the prompt"
    assert not view.replay.isVisibleTo(chat.page)
    slow.gate.release(2)
    qtbot.waitUntil(lambda: view.text.text() != "")
    assert (answer.status, view.text.text()) == ("developing", "It is **so**")
    assert view.text.isVisibleTo(chat.page)
    assert view.thinking.isVisibleTo(chat.page)
    assert answer.so_far(None).thinking == "Let me see."
    assert view.status.line.text() == "Writing"
    assert view.stop.isVisibleTo(chat.page)
    slow.gate.release(2)
    qtbot.waitUntil(lambda: session.active is None)
    assert (answer.status, answer.text, answer.thinking) == ("done", "It is **so** and more.", "Let me see.")
    assert view.text.text() == answer.text
    assert view.status.line.text().startswith("Done · ")
    assert answer.figures.tokens_per_second is not None
    assert view.canvases == []
    hidden = (view.inspect, view.canvas_toggle, view.stop, view.replay, view.board)
    assert not any(widget.isVisibleTo(chat.page) for widget in hidden)
    assert view.again.isVisibleTo(chat.page)
    conversation = session.conversation
    assert conversation is not None
    session.open_new()
    session.open(conversation)
    stored = session.chat.turns[0].answer
    assert (stored.text, stored.thinking) == (answer.text, answer.thinking)
    assert stored.model.endswith("/v1#far/model")
    assert (stored.is_plain, stored.has_trace) == (True, False)
    assert stored.figures != RunFigures()


def test_stop_keeps_what_had_come_and_closes_the_connection(
    qtbot: QtBot, context: AppContext, chat: ChatController, slow: Slow
) -> None:
    session, answer = context.session, ask(context)
    slow.gate.release(2)
    qtbot.waitUntil(lambda: answer.so_far(None).text != "")
    session.stop()
    qtbot.waitUntil(lambda: session.active is None)
    assert (answer.status, answer.text) == ("stopped", "It is **so**")
    assert slow.has_gone.wait(10.0)
    view = chat.page.turns[0].answer
    assert view.text.text() == answer.text
    assert view.status.line.text().startswith("Stopped · ")
    assert view.remarks.text() == "Stopped before the end."


def test_a_server_that_dies_leaves_its_words_and_a_sentence(
    qtbot: QtBot, context: AppContext, chat: ChatController, slow: Slow
) -> None:
    slow.parts = slow.parts[:2]
    answer = ask(context)
    slow.gate.release(2)
    qtbot.waitUntil(lambda: context.session.active is None)
    assert (answer.status, answer.text) == ("failed", "It is **so**")
    assert "was lost" in chat.page.turns[0].answer.remarks.text()
