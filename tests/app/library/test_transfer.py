"""Exports and imports: a branched tree there and back, bad files named, HTML in which all is text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.library import Attachment, LibraryError, NewMessage
from app.library.transfer import from_json, read_file, to_json, to_markdown, write_file
from engine import SafelightError

HOSTILE = (
    '<script>alert(1)</script>\n<img src="http://example.org/x.png" onerror=alert(2)> & </div></main> $body \x07 \u202e'
)


@pytest.fixture
def whole(library):
    """Two versions of an answer, and a prompt edited after the second."""
    id = library.create(title=f"Title {HOSTILE}", system_prompt=HOSTILE, preset="Plain", model="safelight-mini")
    prompt = library.add(
        id, NewMessage(None, "user", HOSTILE, attachments=(Attachment("<b>.txt", "```\n<i>fenced</i>\n```"),))
    )
    library.add(id, NewMessage(prompt, "assistant", "first answer", model="<m>", seed=1, settings='{"t": 1}'))
    second = library.add(
        id, NewMessage(prompt, "assistant", "second *answer*", thinking=HOSTILE, model="<m>", seed=2, figures="{}")
    )
    library.add(id, NewMessage(second, "user", "an edited away prompt"))
    last = library.add(id, NewMessage(second, "user", "last prompt"))
    library.add(id, NewMessage(last, "assistant", "", status="failed", error=HOSTILE))
    library.add(id, NewMessage(last, "assistant", "half of it", status="developing"))
    library.describe(id, pinned=True)
    return library.whole(id)


def test_json_there_and_back(library, whole, tmp_path):
    file = tmp_path / "export.json"
    write_file(file, whole, "json")
    read = read_file(file)
    numbers = {None: None} | {message.id: place for place, message in enumerate(whole.messages, start=1)}
    expected = [
        replace(
            message,
            id=numbers[message.id],
            parent=numbers[message.parent],
            conversation=0,
            status="stopped" if message.status == "developing" else message.status,
        )
        for message in whole.messages
    ]
    assert list(read.messages) == expected
    assert read.summary == replace(whole.summary, id=0)
    # Into a library and out of it again, to the letter.
    assert to_json(library.whole(library.insert(read))) == file.read_text(encoding="utf-8")
    assert len(library.summaries("second answer")) == 2


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), "other-chat", "not a Safelight conversation"),
        (("version",), 2, "newer Safelight"),
        (("version",), True, "version"),
        (("title",), None, "title"),
        (("created",), "today", "created"),
        (("updated",), 1e300, "updated"),
        (("pinned",), 1, "pinned"),
        (("messages",), {}, "messages"),
        (("messages", 0, "id"), 1.0, "id"),
        (("messages", 1, "id"), 1, "used twice"),
        (("messages", 0, "parent"), 1, "parent"),
        (("messages", 0, "role"), "system", "role"),
        (("messages", 0, "status"), "developing", "status"),
        (("messages", 0, "seed"), 2**63, "seed"),
        (("messages", 0, "settings"), "{", "settings"),
        (("messages", 0, "shown"), "yes", "shown"),
        (("messages", 0, "attachments"), [["a", "b"]], "attachment"),
    ],
)
def test_each_field_is_looked_at(whole, path, value, says):
    raw = json.loads(to_json(whole))
    inner = raw
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(LibraryError, match=says) as caught:
        from_json(json.dumps(raw), "chat.json")
    assert str(caught.value).startswith("chat.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"not json", b"[]", b"\xff\xfe\x00", b"[" * 200_000],
)
def test_other_files_are_refused_in_a_sentence(content, tmp_path, library):
    file = tmp_path / "strange.json"
    file.write_bytes(content)
    with pytest.raises(LibraryError, match=r"^strange\.json is no"):
        read_file(file)
    assert library.summaries() == []


def test_an_import_that_fails_leaves_nothing(library, whole):
    library._connection.execute(
        "CREATE TEMP TRIGGER full AFTER INSERT ON messages WHEN new.content = 'half of it' "
        "BEGIN SELECT RAISE(FAIL, 'no'); END"
    )
    before = [s.id for s in library.summaries()]
    with pytest.raises(Exception, match="no"):
        library.insert(whole)
    assert [s.id for s in library.summaries()] == before
    library._connection.execute("DROP TRIGGER full")
    library.insert(whole)
    assert len(library.summaries()) == 2


def test_markdown_is_the_path_on_show(whole):
    text = to_markdown(whole)
    assert text.startswith("# Title <script>")
    assert text.splitlines()[0].endswith("\u202e")  # a title is one line
    assert "## You" in text
    assert "## <m>" in text
    assert "second *answer*" in text
    assert "````\n```\n<i>fenced</i>\n```\n````" in text
    assert "> <script>alert(1)</script>\n> <img" in text
    assert text.rstrip().endswith("half of it\n\n*Stopped*")
    assert "first answer" not in text


@pytest.mark.parametrize("format", ["markdown", "json"])
def test_an_export_replaces_a_file_only_when_it_is_whole(whole, tmp_path, monkeypatch, format):
    file = tmp_path / "kept"
    file.write_text("before")

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(SafelightError, match="disk is full"):
            write_file(file, whole, format)
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    write_file(file, whole, format)
    assert "second *answer*" in file.read_text(encoding="utf-8")
    with pytest.raises(SafelightError, match="there is no folder"):
        write_file(tmp_path / "nowhere" / "file", whole, format)
