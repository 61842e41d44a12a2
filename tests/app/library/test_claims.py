"""Claims: one window answers a conversation at a time, and nothing stale or strange keeps anybody out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from app.library import Library, NewMessage


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
