"""Damaged libraries, and those of other programs: they open, or are set aside whole, with a sentence."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.library import Attachment, Library, NewMessage, schema
from app.library.conversations import ConversationStore

COUNT = 12
WORDS = ("title", "prompt", "answer", "file")
SETTINGS = '{"max_new_tokens": 128, "trace": "abc"}'


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A library of twelve conversations with a prompt, a file and two answers each."""
    folder = tmp_path_factory.mktemp("sound")
    library = Library.open(folder)
    for place in range(COUNT):
        id = library.create(title=f"title{place:02} é")
        text = f"prompt{place:02} " + "word " * 300
        prompt = library.add(id, NewMessage(None, "user", text, attachments=(Attachment("a.txt", f"file{place:02}"),)))
        for version in range(2):
            library.add(id, NewMessage(prompt, "assistant", f"answer{place:02} {version}", settings=SETTINGS))
    library.close()
    return (folder / "library.sqlite").read_bytes()


@pytest.fixture
def file(folder: Path, sound: bytes) -> Path:
    """That library in a folder of its own."""
    folder.parent.mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    file = folder / "library.sqlite"
    file.write_bytes(sound)
    return file


def change(file: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Write past all rules."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement, values)


def damage(file: Path, text: bytes) -> None:
    """Damage a bit in each copy of a text, so that it is no UTF-8."""
    data = file.read_bytes()
    assert text in data
    file.write_bytes(data.replace(text, bytes([text[0] ^ 0x80]) + text[1:]))


def shown(library: Library) -> dict[int, str]:
    """Returns the texts that a window shows of each of the twelve, by its place."""
    said: dict[int, str] = {}
    for summary in library.summaries():
        chat = ConversationStore(library).open(summary.id)
        parts = [summary.title]
        for turn in chat.turns:
            parts += [turn.prompt, *(file.text for file in turn.attachments)]
            parts += [answer.text + str(answer.config.max_new_tokens) for answer in turn.answers.items]
        text = "|".join(parts)
        place = next((place for place in range(COUNT) if any(f"{word}{place:02}" in text for word in WORDS)), -1)
        said[place] = text
    return said


def is_whole(text: str, place: int) -> bool:
    words = (f"title{place:02} é", f"prompt{place:02}", f"file{place:02}", f"answer{place:02} 0128", f"{place:02} 1128")
    return all(word in text for word in words)


def whole_places(library: Library) -> set[int]:
    return {place for place, text in shown(library).items() if is_whole(text, place)}


@pytest.mark.parametrize("word", [b"title03", b"file03"])
def test_a_flipped_bit_in_a_text_keeps_nothing_from_opening(file, reopen, word):
    damage(file, word)
    library = reopen()
    assert whole_places(library) == set(range(COUNT)) - {3}
    assert "�" in shown(library)[3]
    assert library.notice == ""


@pytest.mark.parametrize("settings", ["[" * 5_000, '{"t_max": "hot"}'])
def test_settings_of_any_kind_open(file, reopen, settings):
    change(file, "UPDATE messages SET settings = ?, figures = ?", values=(settings, settings))
    library = reopen()
    for summary in library.summaries():
        for answer in ConversationStore(library).open(summary.id).turns[0].answers.items:
            assert (answer.config.max_new_tokens, answer.trace_id, answer.figures.steps) == (256, "", 0)


def is_set_aside(folder: Path) -> bool:
    """Open, and return True if the file is kept as it was under another name, with its log, and a new one is in use."""
    before = {path.name.removeprefix("library.sqlite"): path.read_bytes() for path in folder.glob("library.sqlite*")}
    library = Library.open(folder)
    aside = [path for path in folder.glob("library-damaged-*") if path.suffix == ".sqlite"]
    if not aside:
        assert library.notice == ""
        library.close()
        return False
    assert aside[0].name in library.notice
    assert {ending: aside[0].with_name(aside[0].name + ending).read_bytes() for ending in before} == before
    library.create(title="goes on")
    library.close()
    library = Library.open(folder)
    assert ([summary.title for summary in library.summaries()], library.notice) == (["goes on"], "")
    library.close()
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    return True


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("conversations", "deleted", "yesterday"),
        ("conversations", "title", b"\xff\xfe"),
        ("messages", "parent", 9),
        ("messages", "seed", "lucky"),
    ],
)
def test_a_value_of_another_kind_is_no_library(file, folder, table, column, value):
    row = 3 if table == "conversations" else 8
    change(file, f"UPDATE {table} SET {column} = ? WHERE id = {row}", values=(value,))
    file.chmod(0o644)
    assert is_set_aside(folder)


@pytest.mark.parametrize("change_bytes", [lambda data: data[:-4096], lambda _: b"what I wrote " * 100])
def test_a_file_that_is_cut_or_no_database_is_set_aside(file, folder, change_bytes):
    file.write_bytes(change_bytes(file.read_bytes()))
    assert is_set_aside(folder)


@pytest.mark.parametrize("start", [0, 16])
def test_a_lost_header_does_not_lose_what_is_in_the_log(file, folder, start):
    library = Library.open(folder)
    library.describe(1, title="title00 é, said last")
    data, log = file.read_bytes(), file.with_name("library.sqlite-wal").read_bytes()
    library.close()
    file.write_bytes(data[:start] + bytes(100 - start) + data[100:])
    file.with_name("library.sqlite-wal").write_bytes(log)
    assert is_set_aside(folder)


def test_a_kill_while_a_file_is_set_aside_loses_none_of_its_parts(file, folder):
    log = b"the last messages" * 10
    file.rename(folder / "library-damaged-1.sqlite")
    file.with_name("library.sqlite-wal").write_bytes(log)
    Library.open(folder).close()
    assert log in [path.read_bytes() for path in folder.glob("library-damaged-*-wal")]


@pytest.mark.parametrize(
    "statement",
    ["CREATE TRIGGER x AFTER UPDATE ON messages BEGIN DELETE FROM conversations; END", "DROP TRIGGER message_gone"],
)
def test_no_schema_but_ours_is_used(file, folder, statement):
    change(file, statement)
    assert is_set_aside(folder)


@pytest.mark.parametrize("table", ["title_index", "message_index"])
@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM {table}_content", "UPDATE {table}_data SET block = x'ffffffff' WHERE id > 10"],
)
def test_a_damaged_index_for_search_costs_no_conversation(file, reopen, table, statement):
    change(file, statement.format(table=table))
    library = reopen()
    assert library.notice == ""
    assert whole_places(library) == set(range(COUNT))
    assert len(library.summaries("prompt title")) == COUNT
    library.delete(1)
    library.purge()
    assert len(library.summaries("prompt title")) == COUNT - 1
    assert schema.objects_of(library._connection) == schema.our_objects()
