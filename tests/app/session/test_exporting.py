"""Conversations to files in a window: read in pieces, written in a thread; of any length."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library, LibraryError, NewMessage, Whole, store, transfer
from app.library.conversations import ConversationStore
from app.window.sidebar.controller import Exporting


@pytest.fixture
def talk(library: Library) -> int:
    """A conversation of 250 prompts and answers with a branch, of which one part was removed."""
    id = library.create(title="talk")
    parent = None
    for number in range(125):
        asked = library.add(id, NewMessage(parent, "user", f"question {number}"))
        parent = library.add(id, NewMessage(asked, "assistant", f"answer {number}", settings="{}", figures="{}"))
    other = library.add(id, NewMessage(asked, "assistant", "another answer", settings="{}", figures="{}"))
    library.remove(library.add(id, NewMessage(other, "user", "taken back")))
    library.show(parent or 0)
    return id


def read(library: Library, id: int) -> tuple[Whole, int]:
    """What is read in pieces, and how many there were."""
    reading = library.reading(id)
    count = 0
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value(), count
        count += 1


def test_in_pieces_the_same_is_read_as_at_once(library: Library, talk: int) -> None:
    found, pieces = read(library, talk)
    assert found == library.whole(talk)
    assert len(found.messages) == 251
    assert pieces == 4  # of a hundred messages each, and an empty one, which says that there are no more


def test_what_is_deleted_meanwhile_is_not_half_exported(library: Library, talk: int) -> None:
    reading = library.reading(talk)
    next(reading)
    library.delete(talk)
    with pytest.raises(LibraryError, match="was deleted"):
        for _ in reading:
            pass


def test_a_file_is_written_in_a_thread(
    qtbot: QtBot, library: Library, talk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Exporting, "slice_seconds", 0.0)  # a piece a slice
    threads: list[str] = []
    write = transfer.write_file
    monkeypatch.setattr(
        transfer, "write_file", lambda *args: threads.append(threading.current_thread().name) or write(*args)
    )
    exporting, problems = Exporting(library), list[str]()
    exporting.failed.connect(problems.append)
    with qtbot.waitSignal(exporting.exported) as told:
        exporting.export(talk, "json", tmp_path / "talk.json")
        exporting.export(talk, "json", tmp_path / "other.json")
    assert told.args == [str(tmp_path / "talk.json")]
    assert threads == ["safelight-background"]
    assert problems == ["Another conversation is still being exported. Try again once it is done."]
    assert not (tmp_path / "other.json").exists()
    assert (tmp_path / "talk.json").read_text(encoding="utf-8") == transfer.to_json(library.whole(talk))


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_what_is_too_long_to_be_opened_can_be_exported(
    qtbot: QtBot, library: Library, talk: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_MESSAGES", 250)
    for act in (
        lambda: ConversationStore(library).open(talk),
        lambda: library.whole(talk),
    ):
        with pytest.raises(LibraryError, match="has 251 messages; up to 250 can be opened"):
            act()
    assert [summary.title for summary in library.summaries()] == ["talk"]
    exporting = Exporting(library)
    with qtbot.waitSignal(exporting.exported):
        exporting.export(talk, form, tmp_path / "talk.out")
    assert "answer 124" in (tmp_path / "talk.out").read_text(encoding="utf-8")
    monkeypatch.setattr(store, "MAX_MESSAGES", 251)
    assert len(ConversationStore(library).open(talk).turns) == 125


def test_what_cannot_be_written_is_said_and_the_next_can(
    qtbot: QtBot, library: Library, talk: int, tmp_path: Path
) -> None:
    exporting = Exporting(library)
    with qtbot.waitSignal(exporting.failed) as told:
        exporting.export(talk, "markdown", tmp_path / "nowhere" / "talk.md")
    assert "there is no folder" in told.args[0]
    with qtbot.waitSignal(exporting.failed) as told:
        exporting.export(99, "markdown", tmp_path / "talk.md")
    assert "was deleted" in told.args[0]
    assert list(tmp_path.glob("*.md")) == []
    with qtbot.waitSignal(exporting.exported):
        exporting.export(talk, "markdown", tmp_path / "talk.md")
