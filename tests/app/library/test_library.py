"""Conversations and trees of messages come back as they were stored; nothing more is changed than was asked."""

from __future__ import annotations

import sqlite3

import pytest

from app.library import Attachment, Library, LibraryError, NewMessage, StoredMessage
from app.library.library import KEPT_DAYS
from app.library.transfer import path_on_show


def said(messages: list[StoredMessage]) -> list[str]:
    return [message.content for message in messages]


def path(library: Library, conversation: int) -> list[str]:
    return said(path_on_show(library.messages(conversation)))


@pytest.fixture
def branched(library: Library) -> tuple[int, dict[str, int]]:
    """p1 with the answers a1 and a2; a2 is followed by p2 and, edited, p3 with the answer a3."""
    conversation = library.create(title="Trees")
    ids: dict[str, int] = {}
    for name, parent, role in (
        ("p1", None, "user"),
        ("a1", "p1", "assistant"),
        ("a2", "p1", "assistant"),
        ("p2", "a2", "user"),
        ("p3", "a2", "user"),
        ("a3", "p3", "assistant"),
    ):
        above = None if parent is None else ids[parent]
        ids[name] = library.add(conversation, NewMessage(above, role, name))  # type: ignore[arg-type]
    return conversation, ids


def test_a_message_comes_back_as_it_was(library, reopen):
    conversation = library.create(title="Tea", system_prompt="Be brief.", preset="Plain", model="safelight-mini")
    message = NewMessage(
        None,
        "user",
        content="zero \0, \r\n, עברית, 👩‍🔬 and \u202e",
        thinking="hm",
        status="failed",
        model="m",
        seed=2**62,
        settings='{"a": 1}',
        figures="{}",
        error="out of memory",
        attachments=(Attachment('a "file".txt', "line\n`tick`\0"), Attachment("empty", "")),
    )
    id = library.add(conversation, message)
    library.close()
    again = reopen()
    (found,) = again.messages(conversation)
    expected = {name: getattr(message, name) for name in NewMessage.__dataclass_fields__}
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.id, found.conversation, found.shown) == (id, conversation, True)
    summary = again.conversation(conversation)
    assert (summary.title, summary.system_prompt, summary.preset) == ("Tea", "Be brief.", "Plain")
    assert summary.model == "safelight-mini"
    assert summary.created < summary.updated == found.created
    assert again.notice == ""


def test_half_a_character_is_replaced_and_a_pair_of_halves_joined(library):
    conversation = library.create(title="\ud800 title")
    id = library.add(conversation, NewMessage(None, "user", "a\udfffb \ud83d\ude00"))
    library.update(id, thinking="\udc00")
    (message,) = library.messages(conversation)
    assert (message.content, message.thinking) == ("a\ufffdb 😀", "\ufffd")
    assert library.conversation(conversation).title == "\ufffd title"


def test_pinned_first_then_written_to_last(library):
    first, second, third = (library.create(title=name) for name in ("first", "second", "third"))
    library.add(second, NewMessage(None, "user", "x"))
    library.describe(first, pinned=True)
    library.describe(third, title="still third")  # a new title is no new place
    assert [(s.id, s.pinned) for s in library.summaries()] == [(first, True), (second, False), (third, False)]
    library.describe(first, pinned=False)
    assert [s.id for s in library.summaries()] == [second, third, first]


def test_the_newest_sibling_is_shown_until_another_is_chosen(library, branched):
    conversation, ids = branched
    assert path(library, conversation) == ["p1", "a2", "p3", "a3"]
    library.show(ids["a1"])
    assert path(library, conversation) == ["p1", "a1"]
    library.show(ids["a2"])
    library.show(ids["p2"])
    assert path(library, conversation) == ["p1", "a2", "p2"]
    shown = {message.content: message.shown for message in library.messages(conversation)}
    assert shown == {"p1": True, "a1": False, "a2": True, "p2": True, "p3": False, "a3": True}
    library.remove(ids["p2"])
    assert path(library, conversation) == ["p1", "a2", "p3", "a3"]
    library.remove(ids["a2"])
    assert path(library, conversation) == ["p1", "a1"]


def test_a_deleted_conversation_is_kept_for_thirty_days_over_restarts(library, branched, reopen, clock):
    conversation, _ids = branched
    library.delete(conversation)
    assert library.summaries() == library.summaries("p1") == []
    with pytest.raises(LibraryError, match="deleted"):
        library.conversation(conversation)
    library.purge()
    library.close()
    clock.now += (KEPT_DAYS - 1) * 86_400
    again = reopen()
    list(again.erasing())
    assert [s.id for s in again.deleted()] == [conversation]
    again.restore(conversation)
    assert [s.id for s in again.summaries("p1")] == [conversation]
    assert again.deleted() == []
    again.delete(conversation)
    clock.now += (KEPT_DAYS + 1) * 86_400
    assert again.deleted() == []
    list(again.erasing())
    with pytest.raises(LibraryError, match="deleted"):
        again.restore(conversation)


def test_several_are_deleted_restored_and_listed_by_the_time_of_their_deletion(library, clock):
    ids = [library.create(title=title) for title in "abc"]
    library.describe(ids[0], pinned=True)
    library.delete(*ids[:2])
    clock.now += 60
    library.delete(ids[2])
    assert [s.title for s in library.deleted()] == ["c", "b", "a"]
    assert library.deleted()[0].updated >= clock.now - 2
    assert not any(s.pinned for s in library.deleted())
    library.restore(*ids)
    assert [s.title for s in library.summaries()] == ["a", "c", "b"]


def test_a_purge_really_removes(library, branched, folder):
    conversation, ids = branched
    library.remove(ids["a2"])
    library.purge()
    with pytest.raises(LibraryError):
        library.put_back(ids["a2"])
    assert library.summaries("a3") == []
    assert [s.id for s in library.summaries("a1")] == [conversation]
    library.delete(conversation)
    list(library.erasing(conversation))
    library.close()
    raw = sqlite3.connect(folder / "library.sqlite")
    for table in ("conversations", "messages", "title_index", "message_index"):
        assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    raw.close()


def test_a_purge_leaves_what_another_window_removed_just_now(library, reopen, clock):
    other = reopen()
    conversation = other.create(title="wanted back")
    message = other.add(conversation, NewMessage(None, "user", "kept"))
    other.remove(message)
    library.purge()
    other.put_back(message)
    assert path(library, conversation) == ["kept"]
    other.remove(message)
    clock.now += 3600
    list(library.erasing())
    with pytest.raises(LibraryError):
        other.put_back(message)


def test_erasing_leaves_what_this_window_may_put_back(library, branched, clock):
    _, ids = branched
    gone = library.create(title="gone")
    library.remove(ids["a2"])
    library.delete(gone)
    clock.now += 3600
    list(library.erasing(gone))
    library.put_back(ids["a2"])


def test_a_conversation_deeper_than_sqlite_follows_is_purged(library):
    conversation, parent = library.create(), None
    with library._writing():  # one transaction, for speed
        from app.library.records import insert_message

        for place in range(1200):
            role = "assistant" if place % 2 else "user"
            parent = insert_message(library._connection, conversation, 0.0, NewMessage(parent, role, str(place)))
    assert len(path(library, conversation)) == 1200
    copy = library.insert(library.whole(conversation))
    library.remove(library.messages(copy)[5].id)
    library.delete(conversation)
    list(library.erasing(conversation))
    library.purge()
    assert [s.id for s in library.summaries()] == [copy]
    assert path(library, copy) == list("01234")


def test_no_message_without_its_conversation_or_parent(library, branched):
    conversation, ids = branched
    other = library.create()
    library.remove(ids["a2"])
    for act in (
        lambda: library.add(other, NewMessage(ids["p1"], "assistant", "in the wrong tree")),
        lambda: library.add(conversation, NewMessage(ids["a2"], "user", "after a removed one")),
        lambda: library.update(10_000, content="nowhere"),
        lambda: library.show(10_000),
    ):
        with pytest.raises(LibraryError, match="this message was deleted"):
            act()
    library.delete(conversation)
    with pytest.raises(LibraryError, match="this conversation was deleted"):
        library.add(conversation, NewMessage(None, "user", "too late"))
    assert library.messages(other) == library.messages(10_000) == []
