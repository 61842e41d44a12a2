"""The index for search holds what the tree holds: a removal takes all of a branch out at once, an undo puts it back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.library import Library, NewMessage, Role

FINISHED = "status NOT IN ('waiting', 'developing')"


def rows(folder: Path, statement: str) -> set[int]:
    """Identities from the file itself, as another program reads it."""
    with closing(sqlite3.connect(folder / "library.sqlite")) as connection:
        return {int(id) for (id,) in connection.execute(statement)}


def matched(folder: Path, word: str) -> set[int]:
    """The messages that the index has under a word."""
    return rows(folder, f"SELECT rowid FROM message_index WHERE message_index MATCH '{word}'")


def words(library: Library) -> list[str]:
    """The messages of the only conversation."""
    (summary,) = library.summaries()
    return [message.content for message in library.messages(summary.id)]


def assert_agree(folder: Path) -> None:
    """The index has all that can be found, and nothing else."""
    there = rows(folder, f"SELECT id FROM messages WHERE {FINISHED} AND removed IS NULL")
    assert rows(folder, "SELECT id FROM message_index_content") == there
    assert matched(folder, "common") == there


@pytest.fixture
def tree(library: Library) -> dict[str, int]:
    """A prompt, two versions of its answer, and what hangs under the first of them; by the word that each alone has."""
    conversation = library.create(title="Fruit")
    parents = {
        "apple": None,
        "banana": "apple",
        "cherry": "apple",
        "damson": "banana",
        "elder": "damson",
        "fig": "cherry",
    }
    made: dict[str, int] = {}
    for word, parent in parents.items():
        role: Role = "user" if word in ("apple", "damson", "fig") else "assistant"
        message = NewMessage(None if parent is None else made[parent], role, f"common {word}")
        made[word] = library.add(conversation, message)
    return made


def test_a_branch_leaves_the_index_when_it_is_removed_and_comes_back_with_it(
    library: Library, folder: Path, tree: dict[str, int]
) -> None:
    assert_agree(folder)
    library.remove(tree["banana"])
    assert words(library) == ["common apple", "common cherry", "common fig"]
    for word in ("banana", "damson", "elder"):
        assert library.summaries(word) == []
        assert matched(folder, word) == set()
    for word in ("apple", "cherry", "fig"):
        assert len(library.summaries(word)) == 1
    assert_agree(folder)
    library.put_back(tree["banana"])
    for word, id in tree.items():
        assert len(library.summaries(word)) == 1
        assert matched(folder, word) == {id}
    assert_agree(folder)


def test_what_was_removed_before_its_parent_stays_removed_when_the_parent_comes_back(
    library: Library, folder: Path, tree: dict[str, int]
) -> None:
    library.remove(tree["elder"])
    library.remove(tree["apple"])
    assert matched(folder, "common") == set()
    library.put_back(tree["apple"])
    assert words(library) == [f"common {word}" for word in tree if word != "elder"]
    assert matched(folder, "common") == set(tree.values()) - {tree["elder"]}
    assert_agree(folder)
    library.put_back(tree["elder"])
    library.put_back(tree["elder"])  # a second time changes nothing
    assert matched(folder, "elder") == {tree["elder"]}
    assert_agree(folder)


def test_an_answer_that_ends_or_changes_after_its_removal_is_not_indexed(library: Library, folder: Path) -> None:
    conversation = library.create()
    prompt = library.add(conversation, NewMessage(None, "user", "common prompt"))
    answer = library.add(conversation, NewMessage(prompt, "assistant", status="developing"))
    library.remove(answer)
    library.update(answer, content="common guava", status="done")
    assert matched(folder, "guava") == set()
    library.update(answer, content="common grape")
    assert matched(folder, "grape") == set()
    library.put_back(answer)
    assert matched(folder, "grape") == {answer}
    assert_agree(folder)


def test_the_next_start_keeps_the_index_of_what_can_still_be_put_back(
    library: Library, folder: Path, tree: dict[str, int], reopen: Callable[[], Library]
) -> None:
    """Two windows: what one has removed, and may want back, is not indexed by the other's start."""
    unfinished = library.add(library.create(), NewMessage(None, "assistant", "common kiwi", status="developing"))
    library.remove(unfinished)
    library.remove(tree["cherry"])
    assert reopen().notice == ""
    assert matched(folder, "kiwi") == matched(folder, "cherry") == set()
    assert_agree(folder)
    library.put_back(tree["cherry"])
    assert matched(folder, "fig") == {tree["fig"]}


def test_an_index_that_still_has_what_was_removed_is_made_anew(
    library: Library, folder: Path, tree: dict[str, int], reopen: Callable[[], Library]
) -> None:
    """Earlier versions left removed messages in the index until they were purged."""
    library.remove(tree["banana"])
    with closing(sqlite3.connect(folder / "library.sqlite")) as connection:
        connection.execute(
            "INSERT INTO message_index (rowid, content) SELECT id, content FROM messages WHERE removed IS NOT NULL"
        )
        connection.commit()
    assert matched(folder, "elder") == {tree["elder"]}
    assert reopen().notice == ""
    assert matched(folder, "elder") == set()
    assert_agree(folder)
    assert [path.name for path in folder.iterdir() if path.suffix == ".sqlite"] == ["library.sqlite"]
    library.put_back(tree["banana"])
    assert matched(folder, "elder") == {tree["elder"]}
