"""The engine's thread: order, bound, cancel, failures, shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QObject, QThread, Slot
from pytestqt.qtbot import QtBot

from app.bridge import engine_thread
from app.bridge.engine_thread import EngineLink, Handle
from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.service import ChatRun, LoadFailed, ModelLoaded, RunAdvanced, RunEnded, RunRequest, RunStarted

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

    def follow(self, handle: Handle) -> Handle:
        """Hears what comes of a request."""
        handle.replied.connect(self.take)
        return handle

    def has(self, kind: type) -> bool:
        return any(isinstance(message, kind) for message in self.messages)

    def count(self, kind: type) -> int:
        return sum(isinstance(message, kind) for message in self.messages)


@pytest.fixture
def reader(qapp: QCoreApplication) -> Reader:  # noqa: ARG001 - no QObject before the application
    return Reader()


@pytest.fixture
def link(qtbot: QtBot, fake: Any, reader: Reader) -> Iterator[EngineLink]:
    """A thread in which a model is loaded."""
    link = EngineLink(fake, mailbox_limit=4)
    handle = reader.follow(link.load("safelight-mini", "Skills"))
    qtbot.waitUntil(lambda: reader.has(ModelLoaded))
    assert handle is not None
    reader.messages.clear()
    yield link
    fake.hold = False
    fake.gate.release(1000)
    link.shutdown()
    assert not link.is_alive


def test_a_run_arrives_in_order_and_whole(qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any) -> None:
    fake.steps = 40  # ten times the mailbox
    reader.follow(link.run(chat(fake.defaults)))
    qtbot.waitUntil(lambda: reader.has(RunEnded))
    started, *events, _ = reader.messages
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
    reader.largest_batch = 0
    fake.steps = 400
    reader.follow(link.run(chat(fake.defaults)))
    qtbot.waitUntil(lambda: reader.has(GenerationFinished))
    assert reader.count(StepFinished) == 400
    assert reader.largest_batch <= 4


def test_cancel_frees_a_worker_that_waits_for_the_reader(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any
) -> None:
    fake.steps = 10_000
    run = reader.follow(link.run(chat(fake.defaults)))
    qtbot.waitUntil(lambda: reader.has(StepFinished))
    run.stop()
    qtbot.waitUntil(lambda: reader.has(RunEnded))
    assert reader.messages[-2].reason == "cancelled"


def test_shutdown_leaves_an_unresponsive_thread_behind(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_thread, "ENDING_SECONDS", 0.05)
    fake.hold = True
    reader.follow(link.run(chat(fake.defaults)))
    qtbot.waitUntil(lambda: reader.has(CanvasStarted))
    link.shutdown()
    assert link.is_alive
    fake.gate.release(1000)
    monkeypatch.undo()
    link.shutdown()
    assert not link.is_alive
    link.shutdown()  # once more is harmless


def test_a_run_is_found_by_its_recording_until_it_ends(
    qtbot: QtBot, link: EngineLink, reader: Reader, fake: Any
) -> None:
    fake.hold = True
    run = link.run(chat(fake.defaults))
    reader.follow(run)
    qtbot.waitUntil(lambda: run.recording is not None)
    recording = run.recording
    assert recording is not None
    assert link.handle_of(recording) is run
    fake.gate.release(1000)
    qtbot.waitUntil(lambda: reader.has(RunEnded))
    assert link.handle_of(recording) is None
    assert not link.pacing.runs
    run.stop()  # once more is harmless


def test_an_unwanted_result_is_dropped(qtbot: QtBot, link: EngineLink, reader: Reader) -> None:
    reader.follow(link.load("missing", "Missing"))  # held by nobody
    kept = reader.follow(link.load("safelight-mini", "Skills"))
    qtbot.waitUntil(lambda: reader.has(ModelLoaded))
    assert (reader.has(LoadFailed), kept is None) == (False, False)
