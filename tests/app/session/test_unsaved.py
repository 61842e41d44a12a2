"""A library that cannot be written for a while: nothing is lost, nothing is stored twice, and no step waits for it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library, LibraryError, opening
from app.library.conversations import ConversationStore
from app.session import saving
from engine import SafelightError
from tests.app.desk import Desk, Lock, shape, stored


@pytest.fixture
def lock(library: Library) -> Iterator[Lock]:
    assert library.folder is not None
    made = Lock(library.folder)
    yield made
    made.close()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(saving, "CLOSING_SECONDS", 0.1)
    monkeypatch.setattr(saving, "RETRY_MS", 100)
    monkeypatch.setattr(saving.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    library = Library.open(tmp_path / "data")
    yield library
    library.close()


def ask(qtbot: QtBot, desk: Desk, prompt: str) -> None:
    desk.session.ask(prompt, (), desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)


def test_an_answer_that_ends_under_a_lock_is_saved_when_the_lock_goes(
    qtbot: QtBot, desk: Desk, lock: Lock, library: Library, fake: Any
) -> None:
    fake.hold = True
    desk.session.ask("hello", (), desk.loaded)
    fake.gate.release(1)
    qtbot.waitUntil(lambda: desk.session.chat.turns[0].answer.stats.total_steps == 1)
    lock.hold()
    fake.gate.release(10)
    qtbot.waitUntil(lambda: desk.session.active is None)
    assert "another program uses the library" in desk.problems[-1]
    assert len(desk.failures) == 1
    lock.let_go()
    qtbot.waitUntil(lambda: desk.problems[-1] == "")  # by the timer alone
    assert stored(library.folder)["hello"] == shape(desk.session.chat)


def test_a_conversation_whose_beginning_could_not_be_stored(
    qtbot: QtBot, desk: Desk, lock: Lock, library: Library
) -> None:
    lock.hold()
    ask(qtbot, desk, "one")
    assert desk.session.conversation is None
    ask(qtbot, desk, "two")
    desk.session.ask_again(desk.session.chat.turns[1], desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)
    one = desk.session.chat
    desk.session.describe(system_prompt="Be brief.", preset="poet", think=False)
    desk.session.choose_answer(one.turns[1], 0)
    desk.session.open_new()
    ask(qtbot, desk, "of another")
    other = desk.session.chat
    assert library.summaries() == []
    lock.let_go()
    desk.session.saving.save()
    assert stored(library.folder) == {"one": shape(one), "of another": shape(other)}
    assert one.id is not None
    assert library.conversation(one.id).system_prompt == "Be brief."


def test_what_is_not_saved_is_shown_as_it_is_in_memory(qtbot: QtBot, desk: Desk, lock: Lock) -> None:
    ask(qtbot, desk, "one")
    chat = desk.session.chat
    lock.hold()
    ask(qtbot, desk, "two")
    desk.session.open_new()
    desk.session.open(chat.id)
    assert desk.session.chat is chat
    desk.session.remove(chat.turns[1])
    desk.session.undo_remove()
    desk.session.remove(chat.turns[1])
    before = shape(chat)
    lock.let_go()
    desk.session.saving.save()
    desk.session.open_new()
    desk.session.open(chat.id)
    assert desk.session.chat is not chat
    assert shape(desk.session.chat) == before


def test_a_failure_that_came_after_the_writing_stores_nothing_twice(qtbot: QtBot, desk: Desk, library: Library) -> None:
    real = library._connection

    class Failing:
        """Commits, and fails then, every other time."""

        count = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def execute(self, statement: str, *values: Any) -> Any:
            done = real.execute(statement, *values)
            if statement == "COMMIT":
                Failing.count += 1
                if Failing.count % 2:
                    fault = sqlite3.OperationalError("disk I/O error")
                    fault.sqlite_errorcode = sqlite3.SQLITE_IOERR
                    raise fault
            return done

    library._connection = Failing()  # type: ignore[assignment]
    ask(qtbot, desk, "one")
    ask(qtbot, desk, "two")
    desk.session.remove(desk.session.chat.turns[1])
    desk.session.undo_remove()
    for _ in range(20):
        desk.session.saving.save()
    library._connection = real
    assert Failing.count > 10
    assert desk.problems[-1] == ""
    assert stored(library.folder) == {"one": shape(desk.session.chat)}


def test_a_conversation_deleted_while_something_waits(qtbot: QtBot, desk: Desk, lock: Lock, library: Library) -> None:
    ask(qtbot, desk, "one")
    chat = desk.session.chat
    assert chat.id is not None
    lock.hold()
    ask(qtbot, desk, "two")
    with pytest.raises(LibraryError, match="another program uses"):  # before anything is deleted
        desk.session.saving.require_saved()
    lock.let_go()
    other = Library.open(library.folder)
    other.delete(chat.id)
    desk.session.saving.save()
    assert "deleted in another window" in desk.failures[-1]
    assert desk.problems[-1] == ""  # it waits no more, and holds up nothing
    other.restore(chat.id)
    ask(qtbot, desk, "three")
    assert stored(library.folder) == {"one": shape(chat)}  # with the turn that could not be stored
    other.close()


def test_no_step_waits_for_a_lock_longer_than_a_tenth_of_a_second(
    qtbot: QtBot, desk: Desk, lock: Lock, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience: list[float] = []
    patient = Library.patient
    monkeypatch.setattr(Library, "patient", lambda self, seconds: patience.append(seconds) or patient(self, seconds))
    ask(qtbot, desk, "one")
    assert max(patience) <= saving.STEP_SECONDS <= 0.1
    patience.clear()
    lock.hold()
    fake.steps = 20
    ask(qtbot, desk, "two")
    assert sum(patience) <= saving.STEP_SECONDS + saving.RETRY_SECONDS * 5  # only the first waits at all
    monkeypatch.undo()
    (timeout,) = desk.session.library._connection.execute("PRAGMA busy_timeout").fetchone()
    assert timeout <= 1000 * opening.BUSY_SECONDS <= 100  # for all the rest


@pytest.mark.parametrize("is_full", [False, True])
def test_what_cannot_be_saved_at_the_end_is_there_at_the_next_start(
    qtbot: QtBot, desk: Desk, lock: Lock, library: Library, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    folder = library.folder
    assert folder is not None
    ask(qtbot, desk, "one")
    saved = shape(desk.session.chat)
    lock.hold()
    ask(qtbot, desk, "two")
    desk.session.edit(desk.session.chat.turns[0], "one, otherwise", desk.loaded)
    qtbot.waitUntil(lambda: desk.session.active is None)
    desk.session.choose_prompt(desk.session.chat.turns[0], 0)
    one = desk.session.chat
    desk.session.describe(system_prompt="Be long.", preset="poet", think=False)
    desk.session.open_new("Be brief.")
    desk.session.ask("three", (), desk.loaded)
    with monkeypatch.context() as patched:
        if is_full:
            write = saving.write_text

            def full(path: Path, text: str, *, private: bool) -> None:
                if path.parent == folder:
                    raise SafelightError("the disk is full")
                write(path, text, private=private)

            patched.setattr(saving, "write_text", full)
        desk.session.close()
    kept = list((folder.parent / "temporary" if is_full else folder).glob("library-rescued-*.json"))
    assert len(kept) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    lock.let_go()
    again = Library.open(folder)
    large = folder / "library-rescued-0.json"
    large.write_bytes(b" " * (saving.MAX_RESCUED_BYTES + 1))
    assert "2 conversations" in saving.bring_in(again)  # the large file before them is left, and takes no room
    large.unlink()
    shapes = [shape(ConversationStore(again).open(summary.id)) for summary in again.summaries()]
    assert all(shape(chat) in shapes for chat in (one, desk.session.chat))
    assert len(shapes) == 3  # and what was saved before stands
    assert sorted(summary.system_prompt for summary in again.summaries()) == ["", "Be brief.", "Be long."]
    assert saved[0][0] == "one"
    assert saving.bring_in(again) == ""
    again.close()


def test_a_rescued_file_that_cannot_be_read_is_named_and_left(library: Library) -> None:
    assert library.folder is not None
    bad = library.folder / "library-rescued-x.json"
    bad.write_text(json.dumps({"format": "other"}))
    (library.folder / "library-rescued-link.json").symlink_to("/etc/passwd")
    assert str(bad) in saving.bring_in(library)
    assert bad.exists()
    assert library.summaries() == []


def test_a_start_under_a_lock_shows_what_there_is_and_saves_later(
    qtbot: QtBot, desk: Desk, lock: Lock, library: Library, monkeypatch: pytest.MonkeyPatch, fake: Any
) -> None:
    ask(qtbot, desk, "one")
    monkeypatch.setattr(opening, "OPENING_SECONDS", 0.01)
    lock.hold()
    late = Library.open(library.folder)
    assert "another program uses the library" in late.notice
    second = Desk(fake, late)
    second.slot.state = desk.slot.state
    second.session.open(late.summaries()[0].id)
    assert shape(second.session.chat) == shape(desk.session.chat)
    second.session.ask("two", (), second.loaded)
    assert second.session.conversation is not None
    lock.let_go()
    second.link.shutdown()
    second.session.close()
    assert stored(library.folder)["one"] == shape(second.session.chat)


# ------------------------------------------------------------------ two windows


def test_another_window_leaves_the_answer_that_develops_here_alone(
    qtbot: QtBot, desk: Desk, library: Library, fake: Any
) -> None:
    ask(qtbot, desk, "one")
    fake.hold = True
    desk.session.ask("two", (), desk.loaded)
    fake.gate.release(1)
    answer = desk.session.chat.turns[1].answer
    qtbot.waitUntil(lambda: answer.stats.total_steps == 1)
    second = Desk(fake, Library.open(library.folder))
    status = "SELECT status FROM messages WHERE id = ?"
    assert library._connection.execute(status, (answer.id,)).fetchone() == ("developing",)
    second.slot.state = desk.slot.state
    second.session.open(desk.session.conversation)
    for act in (
        lambda: second.session.ask("three", (), desk.loaded),
        lambda: second.session.ask_again(second.session.chat.turns[0], desk.loaded),
        lambda: second.session.remove(second.session.chat.turns[0]),
    ):
        with pytest.raises(SafelightError, match="answered in another window"):
            act()
    assert second.session.active is None
    fake.gate.release(100)
    qtbot.waitUntil(lambda: desk.session.active is None)
    second.session.open(desk.session.conversation)
    second.session.ask("three", (), desk.loaded)
    qtbot.waitUntil(lambda: second.session.active is None)
    second.session.close()
    second.link.shutdown()
    assert stored(library.folder)["one"] == shape(second.session.chat)
    assert list(library.folder.glob("*.lock")) == []
