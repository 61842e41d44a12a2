"""Conversations: libraries that have suffered or that somebody else has made, and files to import.

Each library holds conversations whose texts are told apart by a word. It is opened with all that a case did not
touch, or set aside as it was, with a sentence.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import shutil
import sqlite3
import struct
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from app.library import Attachment, Library, NewMessage, transfer
from app.library.conversations import ConversationStore
from app.state.chat.attachment import AttachedPicture
from app.state.chat.conversation import ChatState
from app.state.chat.versions import Versions
from tests.engine.drawn import picture
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

CONVERSATIONS = 8
SETTINGS = '{"max_new_tokens": 256, "max_denoising_steps": 48, "entropy_bound": 0.1, "trace": "0123456789abcdef"}'
PICTURE = picture()
SHOWN = AttachedPicture("a.png", PICTURE.digest, PICTURE.width, PICTURE.height)
FIGURES = '{"steps": 31, "blocks": 2, "capped_blocks": 0, "seconds": 1.5, "tokens_per_forward": 9.1}'

# --- libraries ---------------------------------------------------------------------------------------------------


@functools.cache
def _sound() -> Path:
    """A library with branches, removed messages, a deleted conversation, attachments; made once in a process."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-library-"))
    library = Library.open(folder)
    library.pictures.keep(PICTURE)
    for place in range(CONVERSATIONS):
        id = library.create(title=f"title{place} é", system_prompt="Be brief." * place, model="skills")
        parent = None
        for step in range(4 + place):
            files = (Attachment("a.txt", f"file{place} " + "x" * 6_000),) if step == 2 else ()
            shown = (SHOWN,) if step == 1 else ()
            text = f"prompt{place} number{step} " + "word " * (40 * place)
            prompt = library.add(id, NewMessage(parent, "user", text, attachments=files, pictures=shown))
            for version in range(1 + (step == 1)):
                parent = library.add(
                    id,
                    NewMessage(
                        prompt,
                        "assistant",
                        f"answer{place} version{version} " + "ü𝒳 " * 30,
                        model="skills",
                        seed=step,
                        settings=SETTINGS,
                        figures=FIGURES,
                    ),
                )
    library.delete(library.create(title="deleted"))
    library.remove(library.add(1, NewMessage(None, "user", "removed")))
    library.close()
    return folder / "library.sqlite"


def _plain(random: Random, file: Path) -> set[int]:
    """Bytes anywhere."""
    file.write_bytes(mutate.damaged(random, file.read_bytes()))
    return set()


def _flipped(random: Random, file: Path) -> set[int]:
    """A bit in a text of one conversation: the others are untouched, and this one still opens."""
    place = random.randrange(CONVERSATIONS)
    data = bytearray(file.read_bytes())
    word = random.choice(("title", "prompt", "answer", "file")).encode() + str(place).encode()
    at = data.rfind(word)
    if at >= 0:
        data[at + random.randrange(len(word))] ^= 1 << random.randrange(8)
        file.write_bytes(data)
    return set(range(CONVERSATIONS)) - {place}


COLUMNS = {
    "conversations": (
        *("id", "title", "created", "updated", "pinned", "system_prompt", "preset", "model", "child_shown"),
        "deleted",
    ),
    "messages": (
        *("id", "conversation", "parent", "child_shown", "removed", "removed_at", "created", "role", "status"),
        *("seed", "model", "settings", "figures", "error", "content", "thinking", "attachments"),
    ),
}
VALUES: tuple[Any, ...] = (
    *("text", "", "\x00", "12", "null", b"\xff\xfe", b"", None, -1, 0, 1.5, 7, 2**31, 2**53, 2**63 - 1, -(2**63)),
    *(1e308, float("inf"), '{"a": [', "[]", '[["a"]]', '[["a", 1]]', "[" * 50_000, "9" * 5_000, "1e999", "[1, 2]"),
    *('{"trace": "../../x", "t_max": "hot", "max_new_tokens": ' + "9" * 400 + "}", '{"steps": true, "seconds": NaN}'),
    *('[{"name": "a", "digest": "../x", "width": 1, "height": 1}]', json.dumps([SHOWN.to_json() | {"width": 10**9}])),
    *('{"max_denoising_steps": 1e99, "t_min": [], "t_max": {}}', '{"steps": [1], "seconds": -1, "blocks": 1e300}'),
)


def _wrong(random: Random, file: Path) -> set[int]:
    """Values that a column does not expect, written as SQLite writes them. Other conversations are untouched."""
    hit: set[int] = set()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for name in [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            connection.execute(f"DROP TRIGGER {name}") if random.random() < 0.1 else None
        connection.execute("PRAGMA ignore_check_constraints = ON")
        if random.random() < 0.5:
            connection.execute("PRAGMA writable_schema = ON")  # a column without its rules takes anything
            connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '         ')")
        connection.commit()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(1 + random.randrange(4)):
            table = random.choice(tuple(COLUMNS))
            column = random.choice(COLUMNS[table])
            key = "id" if table == "conversations" else "conversation"
            place = random.randrange(CONVERSATIONS)
            try:
                rows = connection.execute(f"SELECT id FROM {table} WHERE {key} = ?", (place + 1,)).fetchall()
                if rows:
                    value = random.choice(VALUES)
                    other = random.choice(rows)[0]
                    value = other if column in ("parent", "removed", "child_shown") and random.random() < 0.5 else value
                    hit |= {place} | ({value - 1} if column == "conversation" and isinstance(value, int) else set())
                    id = random.choice(rows)[0]
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (value, id))
            except (sqlite3.Error, OverflowError):
                continue
        if random.random() < 0.5:
            with closing(sqlite3.connect(file, isolation_level=None)) as again:
                again.execute("PRAGMA writable_schema = ON")
                again.execute("UPDATE sqlite_master SET sql = replace(sql, '         ', ' NOT NULL')")
    return set(range(CONVERSATIONS)) - hit


def _header(random: Random, file: Path) -> set[int]:
    """Damage within the 100 bytes of the header: all conversations can still be read."""
    data = bytearray(file.read_bytes())
    for _ in range(random.choice((1, 1, 3, 100))):
        at = random.randrange(100)
        data[at] = random.choice((0, 255, data[at] ^ (1 << random.randrange(8)), random.randrange(256)))
    file.write_bytes(data)
    newer = int.from_bytes(data[60:64], "big") > 1 and data[68:72] == bytes.fromhex("5afe1167")
    return set() if newer and not data.startswith(b"SQLite format 3\0") else set(range(CONVERSATIONS))


def _cut(random: Random, file: Path) -> set[int]:
    """Pages cut off the end; nothing is promised of the rest but that it is opened."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) - 4096 * random.randrange(1, 6) - random.choice((0, 0, 1, 2000))])
    return set()


def _pages(random: Random, file: Path) -> set[int]:
    """Pages swapped, wiped, or with the numbers in their own headers and pointers changed."""
    data = bytearray(file.read_bytes())
    for _ in range(1 + random.randrange(4)):
        one, other = (random.randrange(len(data) // 4096) * 4096 for _ in range(2))
        match random.randrange(5):
            case 0:
                data[one : one + 4096] = data[other : other + 4096]
            case 1:
                data[one : one + 4096] = bytes((random.choice((0, 255, 13, 5)),)) * 4096
            case 2:
                data[one + (100 if one == 0 else 0)] = random.choice((2, 5, 10, 13))
            case 3:  # the number of cells, and where they begin
                struct.pack_into(">HH", data, one + 3, random.randrange(65536), random.randrange(65536))
            case _:  # a child or an overflow page that is another one, or the page itself
                number = random.choice((one // 4096 + 1, other // 4096 + 1, 1, 2**31, 2**32 - 1))
                struct.pack_into(">I", data, one + random.choice((8, 12, 14, 100, 4088)), number)
    file.write_bytes(data)
    return set()


SCHEMAS = (
    "CREATE TRIGGER x AFTER UPDATE ON messages BEGIN DELETE FROM conversations; END",
    "CREATE TRIGGER x AFTER INSERT ON messages BEGIN INSERT INTO messages SELECT * FROM messages; END",
    "CREATE TRIGGER x BEFORE DELETE ON conversations BEGIN UPDATE messages SET content = zeroblob(500000000); END",
    "CREATE VIEW x AS WITH RECURSIVE c(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
    "CREATE TABLE x (a, b GENERATED ALWAYS AS (zeroblob(1000000000)) STORED)",
    "CREATE INDEX x ON messages (length(content) * abs(-9223372036854775807))",
    "CREATE TABLE x (a CHECK (a IN (1, 2)), b DEFAULT (load_extension('/tmp/x')))",
    "CREATE VIRTUAL TABLE x USING fts5 (content, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE x USING rtree (id, low, high)",
    "DROP TRIGGER title_gone",
    "DROP INDEX messages_by_parent",
    "DROP TABLE title_index",
    "ALTER TABLE messages ADD COLUMN extra TEXT DEFAULT 'x'",
)


def _schema(random: Random, file: Path) -> set[int]:
    """More or less in the schema than there should be. The conversations are untouched."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        match random.randrange(6):
            case 0 | 1 | 2:
                connection.execute(random.choice(SCHEMAS))
            case 3:  # a great many, or a very long one
                many = random.choice((50, 3_000))
                connection.execute("BEGIN")
                connection.execute(f"CREATE VIEW y AS SELECT '{'x' * random.choice((10, 1_000_000))}' AS z")
                for number in range(many):
                    connection.execute(f"CREATE VIEW x{number} AS SELECT * FROM messages")
                connection.execute("COMMIT")
            case 4:  # our own, said otherwise
                connection.execute("PRAGMA writable_schema = ON")
                was, now = random.choice(
                    (("TEXT", "BLOB"), ("'user'", "'usre'"), ("parent", "pa\u0000nt"), ("CREATE", "CREATE\u00ff"))
                )
                connection.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (was, now))
            case _:
                connection.execute("PRAGMA writable_schema = ON")
                data = mutate.damaged(random, b"CREATE TABLE title_index_data (id INTEGER PRIMARY KEY, block BLOB)")
                connection.execute(
                    "UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = ?", (data, "title_gone")
                )
    return set(range(CONVERSATIONS))


def _index(random: Random, file: Path) -> set[int]:
    """Damage within the index for search; all it knows stands elsewhere."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        table = random.choice(("title_index", "message_index"))
        match random.randrange(4):
            case 0:
                rows = connection.execute(f"SELECT id, block FROM {table}_data").fetchall()
                id, block = random.choice(rows)
                connection.execute(
                    f"UPDATE {table}_data SET block = ? WHERE id = ?", (mutate.damaged(random, block), id)
                )
            case 1:
                connection.execute(f"DELETE FROM {table}_{random.choice(('data', 'content', 'docsize', 'config'))}")
            case 2:
                connection.execute(f"UPDATE {table}_config SET v = ?", (random.choice((0, 99, "x", None)),))
            case _:
                connection.execute(f"UPDATE {table}_content SET c0 = x'ff00'")
    return set(range(CONVERSATIONS))


def _beside(random: Random, file: Path) -> set[int]:
    """Files beside the library that SQLite would look into."""
    ending = random.choice(("-wal", "-journal", "-shm"))
    beside = file.with_name(file.name + ending)
    match random.randrange(5):
        case 0:
            os.mkfifo(beside)
        case 1:
            beside.mkdir()
        case 2:
            beside.symlink_to(random.choice(("/dev/zero", "gone", "library.sqlite", "/etc/passwd")))
        case 3:
            magic = struct.pack(">4I", 0x377F0682, 3007000, 4096, 0) + bytes(16)
            beside.write_bytes(mutate.damaged(random, magic + struct.pack(">II", 3, 9) + bytes(16 + 4096)))
        case _:
            beside.write_bytes(mutate.damaged(random, bytes.fromhex("d9d505f920a163d7") + bytes(8_000)))
    return set(range(CONVERSATIONS)) if ending != "-journal" else set()


def _log(random: Random, file: Path) -> set[int]:
    """A library whose last messages are in its write-ahead log, and damage in either."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("UPDATE conversations SET title = title || ' changed'")
        kept = [(end, file.with_name(file.name + end).read_bytes()) for end in ("", "-wal")]
    for end, data in kept:
        file.with_name(file.name + end).write_bytes(mutate.damaged(random, data) if random.random() < 0.5 else data)
    return set()


def _another(random: Random, file: Path) -> set[int]:
    """No library at all."""
    file.unlink()
    match random.randrange(4):
        case 0:
            file.write_bytes(mutate.damaged(random, b"SQLite format 3\0" + bytes(random.choice((84, 4080, 70_000)))))
        case 1:
            random.choice((os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero")))(file)
        case 2:
            file.write_bytes(random.choice((b"", b"x", b"{}" * 5_000, b"\0" * 200_000)))
        case _:
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA page_size = {random.choice((512, 1024, 65536))}")
                connection.execute("CREATE TABLE conversations (a, b, c)")
                connection.execute("CREATE TABLE messages (a TEXT, b)")
                connection.execute("INSERT INTO messages VALUES ('user', 'done')")
                connection.execute(f"PRAGMA application_id = {random.choice((0, 0x5AFE1167))}")
                connection.execute(f"PRAGMA user_version = {random.choice((0, 1, 2, -1, 2**31 - 1))}")
    return set()


DAMAGES: tuple[Callable[[Random, Path], set[int]], ...] = (
    *(_plain, _flipped, _flipped, _wrong, _wrong, _wrong, _header, _header, _cut, _pages, _pages, _schema, _index),
    *(_beside, _log, _another),
)


def _walk(chat: ChatState) -> str:
    """All that a view may show of a conversation."""
    said = [chat.system_prompt]
    pending: list[Versions[Any]] = [chat.first]
    while pending:
        for turn in pending.pop().items:
            said += [turn.prompt, *(file.name + file.text for file in turn.attachments)]
            said += [f"{shown.name} {shown.digest} {shown.width:,}" for shown in turn.pictures]
            for answer in turn.answers.items:
                figures = answer.figures
                said += [answer.text, answer.thinking, answer.model_title, *answer.notices(), answer.trace_id]
                said.append(
                    f"{figures.steps:,} {figures.seconds or 0:.1f} {answer.config.temperature(0):g} {answer.seed:,}"
                )
                pending.append(answer.following)
    [turn.answer.is_empty for turn in chat.turns]
    text = "\n".join(said)
    text.encode()
    return text


def _use(folder: Path, untouched: set[int]) -> float:
    """What a window does with a library; returns the longest it was held at a stretch."""
    began = time.thread_time()
    library = Library.open(folder)
    longest = time.thread_time() - began
    try:
        began = time.thread_time()
        summaries = library.summaries()
        library.summaries("answer wor x")
        longest = max(longest, time.thread_time() - began)
        said = ""
        for summary in summaries:
            began = time.thread_time()
            said += summary.title + _walk(ConversationStore(library).open(summary.id))
            longest = max(longest, time.thread_time() - began)
        for place in () if library.notice else untouched:
            for word in (f"title{place} ", f"prompt{place} number3", f"answer{place} version1", f"file{place} "):
                assert word in said, f"{word!r} is lost; {library.notice or 'no notice'}"
        began = time.thread_time()
        id = library.create(title="new")
        message = library.add(id, NewMessage(None, "user", "goes on"))
        if summaries:
            library.describe(summaries[0].id, title="changed")
            library.delete(summaries[-1].id)
        library.purge()
        assert [found.id for found in library.messages(id)] == [message]
        longest = max(longest, time.thread_time() - began)
    finally:
        library.close()
    reopened = Library.open(folder)
    assert not reopened.notice, f"damaged again: {reopened.notice}"
    reopened.close()
    return longest


def _make_database(random: Random, folder: Path) -> Attempt:
    file = folder / "library.sqlite"
    shutil.copy(_sound(), file)
    untouched = random.choice(DAMAGES)(random, file)
    return lambda: _use(folder, untouched)


# --- imports -----------------------------------------------------------------------------------------------------


@functools.cache
def _exported() -> dict[str, Any]:
    library = Library.open(_sound().parent)
    raw: dict[str, Any] = json.loads(transfer.to_json(replace(library.whole(3), pictures=(PICTURE,))))
    library.close()
    return raw


def _shaped(random: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """A conversation that is well formed, and not as any of ours would be."""
    sample = raw["messages"][-1] | {"parent": None, "attachments": []}
    count = random.choice((3, 300, 3_000))
    match random.randrange(6):
        case 0:  # deep
            raw["messages"] = [sample | {"id": n, "parent": n - 1 or None} for n in range(1, count)]
        case 1:  # wide
            raw["messages"] = [sample | {"id": n, "parent": None if n == 1 else 1} for n in range(1, count)]
        case 2:  # any tree, roles at random, several or none on show
            raw["messages"] = [
                sample
                | {
                    "id": 2**40 - n,
                    "parent": random.choice((None, 2**40 - random.randrange(n))) if n else None,
                    "role": random.choice(("user", "assistant")),
                    "shown": random.random() < 0.5,
                }
                for n in range(min(count, 300))
            ]
        case 3:  # long
            raw["messages"][0]["content"] = random.choice(("word ", "x", "𝒳", "文", "- ")) * random.choice((9, 400_000))
        case 4:
            raw["messages"][0]["attachments"] = [{"name": random.choice(mutate.NAMES), "text": "x" * 10_000}] * 90
        case _:
            for name in ("settings", "figures", "content", "model", "error"):
                value = random.choice([value for value in VALUES if isinstance(value, str)])
                random.choice(raw["messages"])[name] = value
    return raw


def _make_import(random: Random, folder: Path) -> Attempt:
    path = folder / "talk.json"
    raw = copy.deepcopy(_exported())
    match random.randrange(8):
        case 0 | 1 | 2:
            path.write_bytes(mutate.dumped(random, mutate.tree(random, raw)))
        case 3 if random.random() < 0.1:
            random.choice((os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero")))(path)
        case 3:
            path.write_bytes(mutate.dumped(random, raw))
        case 4 if random.random() < 0.05:
            many = [raw["messages"][0] | {"id": n, "parent": None, "attachments": []} for n in range(1, 20_000)]
            path.write_text(json.dumps(raw | {"messages": many}))
        case _:
            path.write_bytes(json.dumps(_shaped(random, raw), ensure_ascii=random.random() < 0.5).encode())

    def attempt() -> float:
        library = Library.in_memory()
        try:
            return _bring_in(library, path)
        finally:
            library.close()

    return attempt


def _bring_in(library: Library, path: Path) -> float:
    """Import as a window does; then all that may be done with a conversation must work."""
    with ThreadPoolExecutor(1) as reader:  # as the app does, so that it does not hold the window
        whole = reader.submit(transfer.read_file, path).result()
    longest = 0.0
    storing = library.taking(whole)
    while True:
        began = time.thread_time()
        try:
            next(storing)
        except StopIteration as end:
            id = end.value
            break
        longest = max(longest, time.thread_time() - began)
    began = time.thread_time()
    _walk(ConversationStore(library).open(id))
    longest = max(longest, time.thread_time() - began)
    again = transfer.from_json(transfer.to_json(library.whole(id)))
    assert len(again.messages) == len(whole.messages)
    transfer.to_markdown(library.whole(id)), transfer.to_html(library.whole(id))
    library.summaries("answer")
    return longest


KINDS = (
    Kind("databases", _make_database, in_window=True),
    Kind("imports", _make_import, in_window=True),
)
