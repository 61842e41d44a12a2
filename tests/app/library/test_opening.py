"""Opening: versions, faults in words, a kill in the middle of it all, several windows and their claims."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.library import Library, LibraryError, NewMessage, opening, schema
from app.library.conversations import ConversationStore
from app.library.listing import group
from app.state.chat.conversation import Answer, ChatState
from engine import GenerationConfig
from engine.clock import this_moment

ROOT = Path(__file__).resolve().parents[3]


def fill(folder: Path, conversations: int = 3) -> None:
    library = Library.open(folder)
    for place in range(conversations):
        id = library.create(title=f"conversation {place}")
        prompt = library.add(id, NewMessage(None, "user", f"prompt {place} " + "word " * 400))
        library.add(id, NewMessage(prompt, "assistant", f"answer {place}"))
    library.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(folder: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "library.sqlite")) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.parametrize("seconds", [-2e9, 12.0, 3e11])
def test_conversations_of_a_clock_that_is_set_wrong_are_sound(folder, monkeypatch, seconds):
    monkeypatch.setattr("engine.clock.time", SimpleNamespace(time=lambda: seconds))
    for start in (1, 2, 3):
        library = Library.open(folder)
        assert library.notice == ""
        chat, answer = ChatState(), Answer("a model", 0, GenerationConfig())
        ConversationStore(library).ask(chat, [(chat.ask("a question", answer), answer)], "a model")
        found = library.summaries()
        assert len(found) == start
        assert sum(len(one.summaries) for one in group(found, this_moment())) == start
        library.close()
        seconds += 64.0


def test_a_newer_file_is_refused_and_left_alone(folder):
    fill(folder)
    assert run(folder, "PRAGMA user_version") == [(schema.VERSION,)]
    assert run(folder, "PRAGMA journal_mode") == [("wal",)]
    assert names(folder) == ["library.sqlite"]  # closing leaves one file
    run(folder, "PRAGMA user_version = 99")
    run(folder, "ALTER TABLE conversations ADD COLUMN colour TEXT")
    before = (folder / "library.sqlite").read_bytes()
    with pytest.raises(LibraryError, match="newer Safelight"):
        Library.open(folder)
    assert (folder / "library.sqlite").read_bytes() == before
    assert names(folder) == ["library.sqlite"]


def test_a_full_disk_is_said_and_nothing_is_half_written(library, folder):
    conversation = library.create(title="kept")
    first = library.add(conversation, NewMessage(None, "user", "kept too"))
    pages = library._connection.execute("PRAGMA page_count").fetchone()[0]
    library._connection.execute(f"PRAGMA max_page_count = {pages}")
    for act in (
        lambda: library.add(conversation, NewMessage(first, "assistant", "much " * 100_000)),
        lambda: library.update(first, content="much " * 100_000),
        lambda: library.describe(conversation, system_prompt="much " * 100_000),
    ):
        with pytest.raises(LibraryError, match=r"the disk is full.*Free some space") as caught:
            act()
        assert str(folder) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [message.content for message in library.messages(conversation)] == ["kept too"]
    library._connection.execute("PRAGMA max_page_count = 1000000")
    library.add(conversation, NewMessage(first, "assistant", "there is room again"))
    assert len(library.messages(conversation)) == 2


def test_a_library_that_cannot_be_written_is_said_at_once(folder, monkeypatch):
    fill(folder)
    connect = opening.connect

    def read_only(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.close()
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr(opening, "connect", read_only)
    with pytest.raises(LibraryError, match=r"cannot be written. Allow writing"):
        Library.open(folder)


def test_another_program_at_the_file_is_said(folder, monkeypatch):
    fill(folder)
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(opening, "OPENING_SECONDS", 0.01)
    library = Library.open(folder)
    with closing(sqlite3.connect(folder / "library.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LibraryError, match="another program uses the library"):
            library.create()
        assert len(library.summaries()) == 3  # reading goes on
        late = Library.open(folder)
        assert "another program uses the library" in late.notice
        assert len(late.summaries()) == 3
        other.execute("COMMIT")
    late.create()
    late.close()
    library.create()
    library.close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LibraryError, match="another data folder"):
        Library.open(tmp_path / "file")
    with pytest.raises(LibraryError, match="another data folder"):
        Library.open(tmp_path / "file" / "below")


def test_damage_met_later_is_said(library):
    library.create(title="x")
    library._connection.execute("PRAGMA writable_schema = ON")
    library._connection.execute("UPDATE sqlite_master SET rootpage = 99999 WHERE name = 'conversations'")
    library._connection.execute("PRAGMA writable_schema = RESET")
    with pytest.raises(LibraryError, match=r"is damaged. Restart Safelight"):
        library.summaries()


WRITER = """
import sys
from pathlib import Path
from app.library import Library, NewMessage
library = Library.open(Path(sys.argv[1]))
conversation = library.create(title="killed")
prompt = library.add(conversation, NewMessage(None, "user", "What survives?"))
answer = library.add(conversation, NewMessage(prompt, "assistant", status="waiting"))
step = 0
while True:
    step += 1
    library.update(answer, content=f"draft of step {step} " + "word " * step, status="developing")
    print(step, flush=True)
"""


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.PIPE
    )


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_a_kill_in_the_middle_of_an_answer_loses_nothing(folder):
    with start(WRITER, folder) as writer:
        seen = 0
        while seen < 60:
            seen = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        seen = max([seen, *map(int, writer.stdout.read().split())])
    library = Library.open(folder)
    assert library.notice == ""
    (summary,) = library.summaries("survives")
    prompt, answer = library.messages(summary.id)
    assert (prompt.content, prompt.status, answer.status) == ("What survives?", "done", "stopped")
    step = int(answer.content.split()[3])
    assert step in (seen, seen + 1)  # the last that was reported as stored, or the one after
    assert answer.content == f"draft of step {step} " + "word " * step
    assert library.summaries(f"step {step}") != []  # what a crash left can be searched
    library.close()
    assert run(folder, "PRAGMA integrity_check") == [("ok",)]


CROWD = """
import sys
from pathlib import Path
from app.library import Library, NewMessage
sys.stdin.readline()
library = Library.open(Path(sys.argv[1]))
conversation = library.create(title="of one window")
parent = None
for place in range(60):
    parent = library.add(conversation, NewMessage(parent, "user", f"message {place}"))
    library.update(parent, status="developing", content="draft")
    library.update(parent, status="done", content=f"settled {place}")
    library.summaries("settl")
library.close()
"""


def test_several_windows_at_once_corrupt_nothing(folder):
    windows = [start(CROWD, folder) for _ in range(2)]
    for window in windows:  # all of them make the file at the same moment
        window.stdin.write("go\n")
        window.stdin.flush()
    for window in windows:
        window.communicate()
        assert window.returncode == 0
    library = Library.open(folder)
    assert len(library.summaries()) == 2
    for summary in library.summaries("settled"):
        assert [m.content for m in library.messages(summary.id)] == [f"settled {place}" for place in range(60)]
    library.close()
    assert run(folder, "PRAGMA integrity_check") == [("ok",)]
    assert run(folder, "PRAGMA foreign_key_check") == []


def test_what_one_window_writes_the_other_reads(folder):
    one, other = Library.open(folder), Library.open(folder)
    conversation = one.create(title="shared")
    message = other.add(conversation, NewMessage(None, "user", "from the other"))
    assert [m.id for m in one.messages(conversation)] == [message]
    one.delete(conversation)
    with pytest.raises(LibraryError, match="deleted in another window"):
        other.add(conversation, NewMessage(message, "assistant", "too late"))
    one.close()
    other.close()


def test_an_unheld_run_counts_as_stopped(library: Library, folder: Path) -> None:
    ids = [library.create(title=title) for title in ("held", "left", "never claimed")]
    for id in ids:
        library.add(id, NewMessage(None, "assistant", "draft", status="developing"))
    assert library.claims.take(ids[0])
    (folder / f"library-answering-{ids[1]}.lock").touch()
    (folder / "library-answering-x.lock").touch()
    other = Library.open(folder)
    assert [other.messages(id)[0].status for id in ids] == ["developing", "stopped", "stopped"]
    other.close()
    assert sorted(path.name for path in folder.glob("*.lock")) == [
        f"library-answering-{ids[0]}.lock",
        "library-answering-x.lock",
    ]


def test_a_foreign_lock_file_locks_nothing(library: Library, folder: Path, tmp_path: Path) -> None:
    (folder / "library-answering-1.lock").mkdir()
    (folder / "library-answering-2.lock").symlink_to(tmp_path / "elsewhere")
    for conversation in (1, 2):
        assert library.claims.take(conversation)
        library.claims.release(conversation)
    assert not (tmp_path / "elsewhere").exists()
    assert len(list(folder.glob("*.lock"))) == 2
    with closing(Library.in_memory()) as memory:
        assert memory.claims.take(1)
