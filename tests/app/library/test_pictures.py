"""Pictures next to the library: there before the messages that show them, and gone with the last of those."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.library import Library, NewMessage
from app.library.pictures import PictureStore
from app.library.transfer import from_json, read_file, to_json, to_markdown, write_file
from app.state.chat.attachment import AttachedPicture, Attachment
from engine import SafelightError
from engine.pictures import Picture
from tests.engine.drawn import picture

RED, BLUE = picture("red"), picture("blue")
FILE = Attachment("a.txt", "b" * 64)


def attached(shown: Picture, name: str = "a.png") -> AttachedPicture:
    return AttachedPicture(name, shown.digest, shown.width, shown.height)


def files(folder: Path) -> set[str]:
    return set(os.listdir(folder / "pictures"))


def asked(library: Library, *shown: Picture, conversation: int = 0) -> tuple[int, int]:
    """A conversation, or another message of one, that shows pictures."""
    for one in shown:
        library.pictures.keep(one)
    id = conversation or library.create(title="t")
    return id, library.add(id, NewMessage(None, "user", "?", attachments=(FILE,), pictures=tuple(map(attached, shown))))


def found(library: Library, shown: Picture) -> Picture | None:
    """Returns the picture as a library that was just opened finds it."""
    return PictureStore(library.folder / "pictures").get(shown.digest, 30, 20) if library.folder else None


def test_a_message_comes_back_with_its_pictures(library: Library, folder: Path, reopen: Callable[[], Library]) -> None:
    id, _ = asked(library, RED, BLUE)
    library.close()
    again = reopen()
    (message,) = again.messages(id)
    assert message.pictures == (attached(RED), attached(BLUE))
    assert message.attachments == (FILE,)
    assert again.pictures.of([message]) == (RED, BLUE)
    assert {path.stat().st_mode & 0o777 for path in (folder / "pictures").iterdir()} == {0o600}


def test_a_picture_goes_with_the_last_message_that_shows_it(library: Library, folder: Path) -> None:
    first, message = asked(library, RED, BLUE)
    second, _ = asked(library, RED)
    library.remove(message)
    library.purge()
    assert files(folder) == {RED.digest}
    library.delete(second)
    library.purge()
    assert files(folder) == {RED.digest}
    list(library.erasing(second))
    assert files(folder) == set()
    assert library.messages(first) == []


def test_what_can_be_undone_keeps_its_pictures(library: Library, folder: Path, reopen: Callable[[], Library]) -> None:
    id, message = asked(library, RED)
    library.remove(message)
    reopen().close()  # another window purges at its start and its end
    assert files(folder) == {RED.digest}
    library.put_back(message)
    library.purge()
    assert library.messages(id)[0].pictures == (attached(RED),)
    assert files(folder) == {RED.digest}


def test_what_a_crash_left_is_swept_once_it_is_old(library: Library, folder: Path) -> None:
    asked(library, RED)
    part = f".{BLUE.digest}.0123abcd.part"
    library.pictures.keep(BLUE)  # put into a prompt that was never sent
    for name in (part, "notes.txt"):
        (folder / "pictures" / name).write_bytes(b"")
    library.purge()
    assert files(folder) == {RED.digest, BLUE.digest, part, "notes.txt"}
    for name in files(folder):
        os.utime(folder / "pictures" / name, (0, 0))
    library.purge()
    assert files(folder) == {RED.digest, "notes.txt"}


def test_a_picture_that_was_swept_before_it_was_sent_is_written_again(library: Library, folder: Path) -> None:
    held = picture("green")
    library.pictures.keep(held)
    (folder / "pictures" / held.digest).unlink()
    asked(library)
    library.add(library.create(title="t"), NewMessage(None, "user", "?", pictures=(attached(held),)))
    assert found(library, held) == held


def test_a_missing_or_damaged_picture_is_none_and_nothing_else_breaks(library: Library, folder: Path) -> None:
    id, _ = asked(library, RED, BLUE)
    (folder / "pictures" / RED.digest).unlink()
    (folder / "pictures" / BLUE.digest).write_bytes(RED.data)
    assert found(library, RED) is found(library, BLUE) is None
    whole = replace(library.whole(id), pictures=())
    assert from_json(to_json(whole)).messages[0].pictures == (attached(RED), attached(BLUE))


def test_a_library_that_was_set_aside_keeps_its_pictures(folder: Path, reopen: Callable[[], Library]) -> None:
    library = reopen()
    asked(library, RED)
    asked(library, BLUE)
    library.close()
    for name in files(folder):
        os.utime(folder / "pictures" / name, (0, 0))
    with sqlite3.connect(folder / "library.sqlite") as connection:
        connection.execute("DELETE FROM messages WHERE id = 2")
        connection.execute("DROP TABLE message_index")
    connection.close()
    fresh = reopen()
    assert "kept as" in fresh.notice
    fresh.purge()
    assert files(folder) == {RED.digest, BLUE.digest}


def test_an_export_takes_its_pictures_along(library: Library, tmp_path: Path) -> None:
    id, _ = asked(library, RED, BLUE)
    asked(library, RED, conversation=id)
    whole = replace(library.whole(id), pictures=library.pictures.of(library.messages(id)))
    write_file(tmp_path / "a.json", whole, "json")
    read = read_file(tmp_path / "a.json")
    assert read.pictures == (RED, BLUE)
    other = Library.open(tmp_path / "other")
    taken = other.insert(read)
    assert [message.pictures for message in other.messages(taken)] == [
        (attached(RED), attached(BLUE)),
        (attached(RED),),
    ]
    assert found(other, RED) == RED
    other.close()
    assert "Picture: a.png" in to_markdown(whole)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw.update(pictures=[]),
        lambda raw: raw["pictures"].update({RED.digest: "!"}),
        lambda raw: raw["pictures"].update({RED.digest: 5}),
        lambda raw: raw["pictures"].update({RED.digest: raw["pictures"][BLUE.digest]}),
        lambda raw: raw["messages"][0].update(pictures="x"),
        lambda raw: raw["messages"][0]["pictures"][0].update(digest="../x"),
        lambda raw: raw["messages"][0]["pictures"][0].update(width=0),
    ],
)
def test_a_damaged_export_is_refused_in_words(library: Library, damage: Callable[[dict], object]) -> None:
    id, _ = asked(library, RED, BLUE)
    raw = json.loads(to_json(replace(library.whole(id), pictures=(RED, BLUE))))
    damage(raw)
    with pytest.raises(SafelightError, match="pictures"):
        from_json(json.dumps(raw))
