"""Conversations to files and from files in a window: in a thread, in pieces, and nothing half done is shown."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library, LibraryError, NewMessage, store, transfer
from app.library import library as whole_library
from app.library.conversations import ConversationStore
from app.window.sidebar.controller import Exporting, Importing


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


def test_a_conversation_is_read_in_pieces_and_not_half_if_it_is_deleted_meanwhile(library: Library, talk: int) -> None:
    assert len(list(library.reading(talk))) == 4  # of a hundred messages each, and an empty one at the end
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
    with qtbot.waitSignal(exporting.exported) as signal:
        exporting.export(talk, "json", tmp_path / "talk.json")
        exporting.export(talk, "json", tmp_path / "other.json")
    assert signal.args == [str(tmp_path / "talk.json")]
    assert threads == ["safelight-background"]
    assert problems == ["Another conversation is still being exported. Try again once it is done."]
    assert not (tmp_path / "other.json").exists()
    assert (tmp_path / "talk.json").read_text(encoding="utf-8") == transfer.to_json(library.whole(talk))


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_what_is_too_long_to_be_opened_can_be_exported(
    qtbot: QtBot, library: Library, talk: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_MESSAGES", 250)
    for act in (ConversationStore(library).open, library.whole):
        with pytest.raises(LibraryError, match="has 251 messages; up to 250 can be opened"):
            act(talk)
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
    with qtbot.waitSignal(exporting.failed) as signal:
        exporting.export(talk, "markdown", tmp_path / "nowhere" / "talk.md")
    assert "there is no folder" in signal.args[0]
    with qtbot.waitSignal(exporting.failed) as signal:
        exporting.export(99, "markdown", tmp_path / "talk.md")
    assert "was deleted" in signal.args[0]
    assert list(tmp_path.glob("*.md")) == []
    with qtbot.waitSignal(exporting.exported):
        exporting.export(talk, "markdown", tmp_path / "talk.md")


# ---------------------------------------------------------------- imports


@pytest.fixture
def exported(library: Library) -> dict[str, Any]:
    id = library.create(title="talk")
    prompt = library.add(id, NewMessage(None, "user", "a question"))
    library.add(id, NewMessage(prompt, "assistant", "an answer", settings="{}", figures="{}"))
    raw: dict[str, Any] = json.loads(transfer.to_json(library.whole(id)))
    library.delete(id)
    list(library.erasing(id))
    return raw


def many(raw: dict[str, Any], count: int) -> dict[str, Any]:
    """A conversation of so many prompts and answers in turn."""
    pair = raw["messages"]
    return raw | {"messages": [pair[n % 2] | {"id": n + 1, "parent": n or None} for n in range(count)]}


def test_a_file_is_read_in_a_thread_and_opened(
    qtbot: QtBot, library: Library, exported: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(many(exported, 450)))
    threads: list[str] = []
    read = transfer.read_file
    monkeypatch.setattr(
        transfer, "read_file", lambda path: threads.append(threading.current_thread().name) or read(path)
    )
    importing = Importing(library)
    with qtbot.waitSignal(importing.imported) as signal:
        importing.import_files([path])
        importing.import_files([path])  # refused: one at a time
    assert threads == ["safelight-background"]
    (summary,) = library.summaries()
    assert signal.args == [summary.id]
    assert len(ConversationStore(library).open(summary.id).turns) == 225
    with qtbot.waitSignal(importing.imported):  # and another after it
        importing.import_files([path])


def test_what_is_wrong_with_a_file_is_reported(qtbot: QtBot, library: Library, tmp_path: Path) -> None:
    importing = Importing(library)
    for name in ("missing.json", "."):
        with qtbot.waitSignal(importing.failed) as signal:
            importing.import_files([tmp_path / name])
        assert re.search("choose|export your chats again", signal.args[0], re.IGNORECASE)
    assert library.summaries() == []


def test_it_is_stored_in_pieces_and_hidden_until_the_last(library: Library, exported: dict[str, Any]) -> None:
    storing = library.inserting(transfer.from_json(json.dumps(many(exported, 450))))
    pieces = 0
    for _ in storing:
        pieces += 1
        assert library.summaries() == []
    assert pieces == 5  # of a hundred at most
    assert len(library.messages(library.summaries()[0].id)) == 450


def test_an_import_that_is_broken_off_is_purged(
    tmp_path: Path, exported: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_library, "UNDO_SECONDS", -1.0)
    library = Library.open(tmp_path)
    storing = library.inserting(transfer.from_json(json.dumps(many(exported, 450))))
    next(storing), next(storing)
    library.close()
    library = Library.open(tmp_path)
    assert library.summaries() == library.deleted() == []
    library.purge()
    assert library._connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    assert library.summaries() == []
    library.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("settings", "[]"),
        ("settings", "[" * 5_000 + "]" * 5_000),
        ("settings", '{"max_new_tokens": ' + "9" * 400 + "}"),
        ("seed", 10**400),
        ("attachments", [{"name": "x", "text": ""}] * 1_000),
        ("content", "x" * 3_000_000),
        ("content", "half \ud800"),
    ],
)
def test_what_could_not_be_opened_is_not_imported(exported: dict[str, Any], field: str, value: object) -> None:
    text = json.dumps(exported).replace(f'"{field}": ', f'"{field}": {json.dumps(value)}, "was": ', 1)
    if type(value) is int:
        text = text.replace(str(value), "9" * 400)
    with pytest.raises(LibraryError) as caught:
        transfer.from_json(text, "talk.json")
    assert str(caught.value).startswith("talk.json")


@pytest.mark.parametrize(
    "settings",
    ['{"t_max": "hot"}', '{"max_new_tokens": true, "trace": 5}', '{"t_min": 1e308}', '{"trace": "../x"}', ""],
)
def test_what_is_imported_opens(library: Library, exported: dict[str, Any], settings: str) -> None:
    exported["messages"][1] |= {"settings": settings, "figures": settings, "seed": 2**63 - 1}
    id = library.insert(transfer.from_json(json.dumps(exported)))
    (turn,) = ConversationStore(library).open(id).turns
    assert turn.answer.text == "an answer"
    assert turn.answer.trace_id == ""
    assert transfer.from_json(transfer.to_json(library.whole(id))).messages[1].settings == settings
