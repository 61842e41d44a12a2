"""Libraries that have suffered, or that somebody else has made: they open, and what was not hit is there."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.library import Attachment, Library, LibraryError, NewMessage, Summary, opening, salvage, schema
from app.library import library as whole_library
from app.library.conversations import ConversationStore
from app.library.errors import IndexDamagedError

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
    """The same in a folder of its own."""
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


def flip(file: Path, text: bytes) -> None:
    """Damage a bit in each copy of a text, so that it is no UTF-8."""
    data = file.read_bytes()
    assert text in data
    file.write_bytes(data.replace(text, bytes([text[0] ^ 0x80]) + text[1:]))


def shown(library: Library) -> dict[int, str]:
    """What a window shows of each of the twelve, by its place; all of the tree."""
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


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize("word", [b"title03", b"prompt03", b"answer03", b"file03"])
def test_a_flipped_bit_in_a_text_keeps_nothing_from_opening(file, folder, word):
    flip(file, word)
    library = Library.open(folder)
    assert whole_places(library) == set(range(COUNT)) - {3}
    assert "�" in shown(library)[3]
    assert library.notice == ""
    library.close()


def test_attachments_that_cannot_be_read_are_shown_as_they_are(file, folder):
    change(file, "UPDATE messages SET attachments = '[[\"a.txt\", 5' WHERE id = 1")
    library = Library.open(folder)
    (turn,) = ConversationStore(library).open(1).turns
    assert [file.text for file in turn.attachments] == ['[["a.txt", 5']
    library.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("conversations", "deleted", "yesterday"),
        ("conversations", "pinned", "very"),
        ("conversations", "updated", "now"),
        ("conversations", "updated", float("inf")),
        ("conversations", "created", b"\xff"),
        ("conversations", "title", None),
        ("conversations", "title", b"\xff\xfe"),
        ("conversations", "child_shown", "second"),
        ("conversations", "id", 2**63 - 1),
        ("conversations", "id", 2**40),
        ("messages", "parent", "none"),
        ("messages", "parent", 10**6),
        ("messages", "parent", 9),  # itself or one of another conversation
        ("messages", "removed", "no"),
        ("messages", "created", None),
        ("messages", "role", "system"),
        ("messages", "status", 7),
        ("messages", "seed", "lucky"),
        ("messages", "content", b"5"),
        ("messages", "settings", b"\x00\xff"),
        ("messages", "id", 2**63 - 1),
    ],
)
def test_a_value_of_another_kind_is_mended(file, folder, table, column, value):
    row = 3 if table == "conversations" else 8
    change(file, "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '         ')")
    change(file, f"UPDATE {table} SET {column} = ? WHERE id = {row}", values=(value,))
    change(file, "UPDATE sqlite_master SET sql = replace(sql, '         ', ' NOT NULL')")
    library = Library.open(folder)
    assert "kept as" in library.notice
    assert whole_places(library) >= set(range(COUNT)) - {2}
    assert len(library.summaries()) >= COUNT  # none is missing, whatever was mended in it
    library.create(title="goes on")
    library.close()
    library = Library.open(folder)
    assert library.notice == ""
    library.close()


def test_messages_that_follow_each_other_in_a_circle_are_shown(file, folder):
    change(file, "UPDATE messages SET parent = 9 WHERE id = 7")
    library = Library.open(folder)
    assert whole_places(library) == set(range(COUNT))
    library.close()


@pytest.mark.parametrize(
    "settings",
    ["[]", "[" * 5_000, "9" * 400, '{"t_max": "hot"}', '{"max_new_tokens": 1e400}', '{"trace": "../../x"}', "{"],
)
def test_settings_of_any_kind_open(file, folder, settings):
    change(file, "UPDATE messages SET settings = ?, figures = ?", values=(settings, settings))
    library = Library.open(folder)
    for summary in library.summaries():
        for answer in ConversationStore(library).open(summary.id).turns[0].answers.items:
            assert (answer.config.max_new_tokens, answer.trace_id, answer.figures.steps) == (256, "", 0)
    library.close()


# ------------------------------------------------------------------ the file


@pytest.mark.parametrize("pages", [1, 2])
def test_a_file_cut_at_its_end_loses_little(file, folder, pages):
    data = file.read_bytes()
    file.write_bytes(data[: -4096 * pages])
    library = Library.open(folder)
    assert len(whole_places(library)) >= COUNT - 1
    library.close()


@pytest.mark.parametrize(
    "at", [0, 15, 16, 17, 18, 19, 20, 21, 23, 24, 28, 31, 35, 39, 43, 47, 48, 55, 56, 59, 60, 63, 67, 68, 92, 99]
)
def test_no_byte_of_the_header_loses_a_conversation(file, folder, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)
    library = Library.open(folder)
    assert whole_places(library) == set(range(COUNT))
    library.close()


@pytest.mark.parametrize("start", [0, 16])
def test_a_lost_header_does_not_lose_what_is_in_the_log(file, folder, start):
    library = Library.open(folder)
    library.describe(1, title="title00 é, said last")
    data, log = file.read_bytes(), file.with_name("library.sqlite-wal").read_bytes()
    library.close()
    file.write_bytes(data[:start] + bytes(100 - start) + data[100:])
    file.with_name("library.sqlite-wal").write_bytes(log)
    library = Library.open(folder)
    assert "title00 é, said last" in {summary.title for summary in library.summaries()}
    assert whole_places(library) == set(range(COUNT))
    library.close()


def test_rows_between_two_damaged_places_are_read(folder):
    library = Library.open(folder)
    id = library.create(title="long")
    for place in range(200):
        library.add(id, NewMessage(None, "user", f"number{place:03} " + "word " * 200))
    library.close()
    file = folder / "library.sqlite"
    data = bytearray(file.read_bytes())
    for word in (b"number030", b"number150"):
        page = data.rfind(word) // 4096 * 4096  # the table's copy; the index for search comes after it
        at = data.find(word) // 4096 * 4096
        data[at : at + 4096] = data[page : page + 4096] = b"\xee" * 4096
    file.write_bytes(data)
    library = Library.open(folder)
    (summary,) = library.summaries()
    read = {message.content[6:9] for message in library.messages(summary.id)}
    assert {"000", "020", "050", "090", "140", "160", "199"} <= read
    library.close()


def test_what_was_deleted_stays_deleted(file, folder):
    library = Library.open(folder)
    library.delete(1)
    library.remove(library.messages(2)[0].id)
    library.close()
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    library = Library.open(folder)
    assert "kept as" in library.notice
    assert whole_places(library) == set(range(COUNT)) - {0, 1}
    assert len(library.summaries()) == COUNT - 1
    library.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER x AFTER UPDATE ON messages BEGIN DELETE FROM conversations; END",
        "CREATE TRIGGER x BEFORE DELETE ON conversations BEGIN DELETE FROM messages; END",
        "CREATE VIEW x AS SELECT * FROM messages",
        "CREATE INDEX x ON messages (length(content))",
        "DROP TRIGGER message_gone",
        "UPDATE sqlite_master SET sql = replace(sql, 'new.title', 'upper(new.title)')",
        "UPDATE sqlite_master SET sql = CAST(x'43ff80fe' AS TEXT) WHERE name = 'title_gone'",
        "UPDATE sqlite_master SET sql = CAST(x'43ff80fe' AS TEXT), name = CAST(x'ff' AS TEXT)",
    ],
)
def test_no_schema_but_ours_is_used(file, folder, statement):
    change(file, statement)
    library = Library.open(folder)
    assert "kept as" in library.notice
    assert whole_places(library) == set(range(COUNT))
    library.delete(1)
    library.purge()
    assert len(library.summaries()) == COUNT - 1
    assert schema.objects_of(library._connection) == schema.objects_at(schema.STEPS)
    library.close()


def test_a_row_that_shares_its_pages_is_read_no_larger_than_the_file(file):
    """Else one chain of overflow pages in a thousand rows is a thousand times its text."""
    data = salvage._bytes(file)
    for most, expected in ((len(data), 3 * COUNT), (5_000, 9)):
        with closing(salvage._connected(data, salvage._header(4096, len(data) // 4096))) as connection:
            rows = list(salvage._rows(connection, "messages", most, float("inf")))
        assert len(rows) == expected
        assert sum(len(str(row["content"])) for row in rows) <= most


@pytest.mark.parametrize("table", ["title_index", "message_index"])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {table}_content",
        "UPDATE {table}_data SET block = x'ffffffff' WHERE id > 10",
        "DELETE FROM {table}_data WHERE id > 10",
        "UPDATE {table}_config SET v = 99",
        "INSERT INTO {table}_content (id, c0) VALUES (1000, 'x')",
    ],
)
def test_a_damaged_index_for_search_costs_no_conversation(file, folder, table, statement):
    change(file, statement.format(table=table))
    library = Library.open(folder)
    assert whole_places(library) == set(range(COUNT))
    for use in (library.summaries, lambda query: library.create(title=query), lambda _query: library.purge()):
        with contextlib.suppress(IndexDamagedError):  # it is made anew where it turns out to be damaged
            use("prompt")
        use("prompt")
    assert len(library.summaries("prompt title")) == COUNT
    library.close()


# ------------------------------------------------------------------ how it is set aside


def test_all_files_are_their_owners_alone(file, folder, monkeypatch):
    file.chmod(0o644)
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    Library.open(folder).close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ("ALTER TABLE messages ADD COLUMN x",)))
    Library.open(folder).close()
    assert len(list(folder.iterdir())) == 3  # the library, the damaged one, the backup
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_salvage_that_fails_is_begun_again(file, folder, monkeypatch):
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    insert = Library._insert

    def full(self: Library, summary: Summary) -> int:
        if summary.title.startswith("title05"):
            raise sqlite3.OperationalError("database or disk is full")
        return insert(self, summary)

    with monkeypatch.context() as patch:
        patch.setattr(Library, "_insert", full)
        with pytest.raises(LibraryError):
            Library.open(folder)
    assert "library.sqlite" in os.listdir(folder)
    library = Library.open(folder)
    assert whole_places(library) == set(range(COUNT))
    assert f"{COUNT} conversations" in library.notice
    library.close()
    assert len(os.listdir(folder)) == 2


def test_a_salvage_takes_its_time_and_says_what_it_left(file, folder, monkeypatch):
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    monkeypatch.setattr(salvage, "READ_SECONDS", -1.0)
    library = Library.open(folder)
    assert "library-damaged-" in library.notice
    assert "too long" in library.notice
    library.close()


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_takes_longer_than_a_start_may_follows_after_it(file, folder, monkeypatch, is_closed):
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    monkeypatch.setattr(whole_library, "TAKE_OVER_SECONDS", -1.0)
    library = Library.open(folder)
    assert f"{COUNT} conversations" in library.notice
    assert library.summaries() == []
    if is_closed:  # before the rest was there
        library.close()
        library = Library.open(folder)
    else:
        assert len(list(library.taking_over())) == COUNT
    assert whole_places(library) == set(range(COUNT))
    assert library.left == []
    library.close()


def test_a_file_that_is_too_large_to_be_salvaged_is_named(file, folder, monkeypatch):
    change(file, "UPDATE conversations SET pinned = 'x' WHERE id = 5")
    monkeypatch.setattr(salvage, "LARGEST_FILE", 1000)
    library = Library.open(folder)
    assert "library-damaged-" in library.notice
    library.close()
    assert not opening.has_header(folder / "nowhere")
