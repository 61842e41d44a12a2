"""Asking and keeping: all that is shown is in the library, branches too, whatever happens to the run."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library, LibraryError
from app.session.session import Session
from app.settings.values import SettingsValues
from app.state.chat.attachment import Attachment
from app.state.chat.conversation import ChatState
from engine import MINI, SafelightError
from tests.app.desk import Desk, shape


def ask(qtbot: QtBot, desk: Desk, prompt: str, files: tuple[Attachment, ...] = ()) -> None:
    desk.session.ask(prompt, files, desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)


def reopened(desk: Desk) -> ChatState:
    """Returns the shown conversation as the library has it."""
    other = Session(desk.session.library, desk.link, SettingsValues())
    assert desk.session.conversation is not None
    other.open(desk.session.conversation)
    return other.chat


def test_a_conversation_enters_the_library_with_its_first_prompt(qtbot: QtBot, desk: Desk, library: Library) -> None:
    assert library.summaries() == []
    ask(qtbot, desk, "Reverse the word stone.\nQuickly.")
    (summary,) = library.summaries()
    assert summary.title == "Reverse the word stone."
    assert summary.id == desk.session.conversation
    ask(qtbot, desk, "again", (Attachment("a.txt", "text"),))
    assert len(library.summaries()) == 1
    assert shape(reopened(desk)) == shape(desk.session.chat)


def test_branches_and_versions_come_back_as_they_were_left(qtbot: QtBot, desk: Desk) -> None:
    session = desk.session
    for prompt in ("one", "two", "three"):
        ask(qtbot, desk, prompt)
    one, two, _ = session.chat.turns
    session.edit(two, "other", desk.loaded)
    qtbot.waitUntil(lambda: session.active is None)
    session.ask_again(one, desk.loaded)
    qtbot.waitUntil(lambda: session.active is None)
    assert [turn.prompt for turn in session.chat.turns] == ["one"]
    assert shape(reopened(desk)) == shape(session.chat)
    session.choose_answer(one, 0)
    session.choose_prompt(session.chat.turns[1], 0)
    assert [turn.prompt for turn in session.chat.turns] == ["one", "two", "three"]
    assert shape(reopened(desk)) == shape(session.chat)
    figures = reopened(desk).turns[0].answer.figures
    assert figures == session.chat.turns[0].answer.figures
    assert figures.steps == 3


def test_every_step_on_screen_is_in_the_library(qtbot: QtBot, desk: Desk, fake: Any, tmp_path: Path) -> None:
    fake.hold = True
    desk.session.ask("hello", (), desk.loaded)
    answer = desk.session.chat.turns[0].answer
    fake.gate.release(2)
    qtbot.waitUntil(lambda: answer.stats.total_steps == 2)
    with sqlite3.connect(tmp_path / "library.sqlite") as other:  # as another process would find it after a kill
        content, status = other.execute("SELECT content, status FROM messages WHERE role = 'assistant'").fetchone()
    other.close()
    assert content == answer.draft(desk.loaded.decode).text != ""
    assert status == "developing"
    fake.gate.release(10)
    qtbot.waitUntil(lambda: desk.session.active is None)


def test_an_answer_goes_on_while_another_conversation_is_on_show(qtbot: QtBot, desk: Desk, fake: Any) -> None:
    session = desk.session
    ask(qtbot, desk, "first")
    first = session.conversation
    assert first is not None
    fake.hold = True
    session.ask("second", (), desk.loaded)
    running = session.active
    assert running is not None
    session.open_new()
    assert session.chat.turns == []
    assert session.active is running
    assert session.active_conversation == first
    fake.gate.release(2)
    qtbot.waitUntil(lambda: running.stats.total_steps == 2)
    session.open(first)
    assert session.chat.turns[-1].answer is running  # not a copy of it from the library
    session.open_new()
    fake.gate.release(10)
    qtbot.waitUntil(lambda: session.active is None)
    session.open(first)
    assert session.chat.turns[-1].answer.text == running.text
    assert session.chat.turns[-1].answer.status == "done"


def test_deleting_a_turn_can_be_undone(qtbot: QtBot, desk: Desk) -> None:
    session = desk.session
    for prompt in ("one", "two", "three"):
        ask(qtbot, desk, prompt)
    before = shape(session.chat)
    session.remove(session.chat.turns[1])
    assert [turn.prompt for turn in session.chat.turns] == ["one"]
    assert shape(reopened(desk)) == shape(session.chat)
    session.undo_remove()
    assert shape(session.chat) == before
    assert shape(reopened(desk)) == before
    session.undo_remove()
    assert shape(session.chat) == before


def test_nothing_is_deleted_under_an_answer_that_develops(qtbot: QtBot, desk: Desk, fake: Any) -> None:
    ask(qtbot, desk, "one")
    fake.hold = True
    desk.session.ask("two", (), desk.loaded)
    with pytest.raises(SafelightError, match="Stop the answer first"):
        desk.session.remove(desk.session.chat.turns[0])
    assert len(desk.session.chat.turns) == 2


def test_a_run_that_fails_before_it_begins_gives_the_prompt_back(qtbot: QtBot, desk: Desk) -> None:
    files = (Attachment("a.txt", "text"),)
    desk.session.ask("x" * 500, files, desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)
    ((prompt, kept, why),) = desk.returned
    assert (prompt, kept) == ("x" * 500, files)
    assert "Shorten the prompt" in why
    assert desk.failures == []  # it is said once
    assert desk.session.chat.turns == []
    assert desk.session.library.summaries() == []
    desk.session.ask("short", (), desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)
    assert [summary.title for summary in desk.session.library.summaries()] == ["short"]


def test_a_run_that_fails_in_the_middle_keeps_what_it_had(qtbot: QtBot, desk: Desk, fake: Any) -> None:
    fake.fail_at = 2
    ask(qtbot, desk, "hello")
    answer = reopened(desk).turns[0].answer
    assert answer.status == "failed"
    assert answer.text == desk.session.chat.turns[0].answer.text != ""
    assert "the graphics card fell out" in answer.notices()[0]


def test_a_full_disk_is_said_once_and_the_conversation_goes_on(
    qtbot: QtBot, desk: Desk, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(qtbot, desk, "one")

    def full(*_args: Any, **_named: Any) -> None:
        raise LibraryError("the disk is full. Make room; nothing that was stored is lost")

    with monkeypatch.context() as patched:
        for name in ("add", "update"):
            patched.setattr(library, name, full)
        ask(qtbot, desk, "two")
    assert len(desk.failures) == 1
    assert len(desk.problems) == 1
    assert [turn.answer.status for turn in desk.session.chat.turns] == ["done", "done"]
    ask(qtbot, desk, "three")  # there is room again: what could not be stored is stored now
    assert desk.problems[1:] == [""]
    assert shape(reopened(desk)) == shape(desk.session.chat)


def test_nothing_is_counted_in_the_thread_of_the_window(
    qtbot: QtBot, desk: Desk, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's template and tokenizer take as long as they are allowed to."""
    threads: list[threading.Thread] = []
    rendered = fake.load_model(MINI).chat_template.render

    def render(*given: Any, **options: Any) -> str:
        threads.append(threading.current_thread())
        return str(rendered(*given, **options))

    noted = SimpleNamespace(render=render)
    monkeypatch.setattr(fake._model, "chat_template", noted)
    ask(qtbot, desk, "hello")
    assert threads
    assert threading.main_thread() not in threads


def test_the_late_end_of_a_run_is_not_that_of_the_next(qtbot: QtBot, desk: Desk, fake: Any) -> None:
    fake.hold = True
    desk.session.ask("one", (), desk.loaded)
    assert desk.session._run is not None
    first = desk.session._run.handle
    fake.gate.release(10)
    qtbot.waitUntil(lambda: desk.session.active is None)
    desk.session.ask("two", (), desk.loaded)
    first.ended.emit("", "")  # as if it had waited in the queue
    assert desk.session.active is desk.session.chat.turns[1].answer
    fake.gate.release(10)
    qtbot.waitUntil(lambda: desk.session.active is None)
    assert desk.session.chat.turns[1].answer.status == "done"
