"""The engine's thread: order, bound, cancel, failures, shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QObject, QThread, Slot
from pytestqt.qtbot import QtBot

from app.bridge import engine_thread
from app.bridge.engine_thread import EngineLink
from app.bridge.mailbox import Mailbox
from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.service import ChatRun, MemoryUsed, ModelLoaded, RunAdvanced, RunEnded, RunRequest, RunStarted

MESSAGES = ({"role": "user", "content": "hello"},)


def chat(config: GenerationConfig, seed: int = 7) -> RunRequest:
    return ChatRun(config, seed, MESSAGES)


class Reader(QObject):
    """Collects what arrives, and in which thread; of ``RunAdvanced`` the event."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self.largest_batch = 0
        self.in_own_thread = True

    @Slot(object)
    def take(self, messages: list[Any]) -> None:
        self.largest_batch = max(self.largest_batch, len(messages))
        self.in_own_thread &= QThread.currentThread() is self.thread()
        self.messages += [message.event if isinstance(message, RunAdvanced) else message for message in messages]

    def has(self, kind: type) -> bool:
        return any(isinstance(message, kind) for message in self.messages)

    def count(self, kind: type) -> int:
        return sum(isinstance(message, kind) for message in self.messages)


@pytest.fixture
def reader(qapp: QCoreApplication) -> Reader:  # noqa: ARG001 - no QObject before the application
    return Reader()


@pytest.fixture
def link(fake: Any, reader: Reader) -> Iterator[EngineLink]:
    link = EngineLink(fake, mailbox_limit=4)
    link.pacing.released.connect(reader.take)
    yield link
    fake.hold = False
    fake.gate.release(1000)
    link.shutdown()
    assert not link.is_alive


def loaded(qtbot: QtBot, link: EngineLink, reader: Reader) -> None:
    link.load("safelight-skills", "Skills")
    qtbot.waitUntil(lambda: reader.has(ModelLoaded))
    reader.messages.clear()


def test_a_run_arrives_in_order_and_whole(qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any) -> None:
    loaded(qtbot, link, reader)
    fake.steps = 40  # ten times the mailbox
    link.run(chat(fake.defaults))
    qtbot.waitUntil(lambda: reader.has(RunEnded))
    started, *told, _ = reader.messages
    events = [message for message in told if not isinstance(message, MemoryUsed)]
    assert len(events) == len(told) - 1
    assert isinstance(started, RunStarted)
    assert list(started.trace.events) == events
    assert started.trace.seed == 7
    assert started.trace.prompt == "hello"
    kinds = [type(event) for event in events]
    steps = [StepFinished] * 40
    assert kinds == [PrefillFinished, CanvasStarted, *steps, CanvasCommitted, GenerationFinished]
    assert [event.step for event in events if isinstance(event, StepFinished)] == list(range(40))


def test_the_worker_is_never_further_ahead_than_the_mailbox_is_large(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any
) -> None:
    loaded(qtbot, link, reader)
    reader.largest_batch = 0
    fake.steps = 400
    link.run(chat(fake.defaults))
    qtbot.waitUntil(lambda: reader.has(GenerationFinished))
    assert reader.count(StepFinished) == 400
    assert reader.largest_batch <= 4


def test_cancel_frees_a_worker_that_waits_for_the_reader(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any
) -> None:
    loaded(qtbot, link, reader)
    fake.steps = 10_000
    link.run(chat(fake.defaults))
    qtbot.waitUntil(lambda: reader.has(StepFinished))
    link.stop()
    qtbot.waitUntil(lambda: reader.has(RunEnded))
    assert reader.messages[-2].reason == "cancelled"


def test_shutdown_in_the_middle_of_a_run(qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any) -> None:
    loaded(qtbot, link, reader)
    fake.steps = 100_000
    link.run(chat(fake.defaults))
    qtbot.waitUntil(lambda: reader.has(StepFinished))
    link.shutdown()
    assert not link.is_alive
    link.shutdown()  # once more is harmless


def test_shutdown_leaves_behind_what_answers_to_nobody(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_thread, "ENDING_SECONDS", 0.05)
    loaded(qtbot, link, reader)
    fake.hold = True
    link.run(chat(fake.defaults))
    qtbot.waitUntil(lambda: reader.has(CanvasStarted))
    link.shutdown()
    assert link.is_alive
    fake.gate.release(1000)
    monkeypatch.undo()
    link.shutdown()
    assert not link.is_alive


def test_mailbox_tells_only_the_first_item() -> None:
    box: Mailbox[int] = Mailbox(8)
    assert [box.put(i) for i in range(3)] == [True, False, False]
    assert box.drain() == [0, 1, 2]
    assert box.put(3)
    box.close()
    assert not box.put(4)
    assert box.drain() == []


def test_a_full_mailbox_says_so_until_it_is_drained() -> None:
    box: Mailbox[int] = Mailbox(2)
    drained: list[int] = []
    box.on_drained = lambda: drained.append(1)
    box.put(0)
    assert not box.is_full
    box.put(1)
    assert box.is_full
    assert box.drain() == [0, 1]
    assert not box.is_full
    assert drained == [1]
    box.drain()
    assert drained == [1]  # there was nothing
