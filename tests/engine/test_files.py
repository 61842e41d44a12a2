"""Reading within bounds, names that stay in a folder, writing whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine import SafelightError
from engine.errors import quoted
from engine.files import is_bare_name, parse_json, private_folder, read_bytes, read_json, replacing, write_text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "deeper than 32"),
        ("[" * 40 + "]" * 40, "deeper than 32"),
        ("[1e999]", "too large"),
        ("[NaN]", "not a number"),
        ("[-Infinity]", "not a number"),
        ("[" + "9" * 400 + "]", "40 digits"),
        (r'["\ud800"]', "half a character"),
        (r'{"\udfff": 1}', "half a character"),
        ("[" + "{}," * 300_001 + "1]", "values"),
        ("[", "JSON"),
    ],
)
def test_json_out_of_bounds(text: str, why: str) -> None:
    with pytest.raises(SafelightError, match=why) as error:
        parse_json(text, "some.json")
    assert "some.json" in str(error.value)


def test_json_within_bounds() -> None:
    assert parse_json('{"model_max_length": 1000000000000000019884624838656, "a": ["é𝒳", 1.5]}', "x") == {
        "model_max_length": 1000000000000000019884624838656,
        "a": ["é𝒳", 1.5],
    }
    assert parse_json("[" * 32 + "]" * 32, "x")


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    pipe, large, link = tmp_path / "pipe", tmp_path / "large", tmp_path / "link"
    os.mkfifo(pipe)
    large.write_bytes(b"12345")
    link.symlink_to(large)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(SafelightError, match="not a regular file"):
            read_json(path)
    with pytest.raises(SafelightError, match="larger than 4 bytes"):
        read_bytes(large, 4)
    with pytest.raises(SafelightError, match="larger than"):
        read_bytes(Path("/proc/self/status"), 4)  # a file that says it is empty
    assert read_bytes(link, 5) == b"12345"
    with pytest.raises(OSError):  # noqa: PT011 - which one is the system's choice
        read_bytes(link, 5, follow_links=False)
    with pytest.raises(SafelightError, match="cannot be read"):
        read_json(Path("a\x00b"))


BARE = ("model.safetensors", "model-00001-of-00002.safetensors", "config.json", "_a", "0")
OTHERS: tuple[object, ...] = (
    *(
        "",
        ".",
        "..",
        ".hidden",
        "../x",
        "/x",
        "a/b",
        "a\\b",
        "C:x",
        "a\x00",
        "a\n",
        "x.",
        "con",
        "NUL.txt",
        "com1",
        "é",
    ),
    *("x" * 201, "-rf", None, 7),
)


def test_names_are_bare_or_not() -> None:
    assert [name for name in BARE + OTHERS if is_bare_name(name)] == list(BARE)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_text(path, "old", private=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ZeroDivisionError), replacing(path) as other:
        other.write_text(str(1 // 0))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.json"]
    write_text(path, "new")
    assert path.read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes among its files")
def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(pipe)
    for path in (pipe, folder, link):
        with pytest.raises(SafelightError, match="it is not a file"):
            write_text(path, "text")
    assert sorted(tmp_path.iterdir()) == [folder, link, pipe]
    assert pipe.is_fifo()
    assert folder.is_dir()
    assert link.is_symlink()


def test_private_folders(tmp_path: Path) -> None:
    made = private_folder(tmp_path / "a" / "b")
    assert [folder.stat().st_mode & 0o777 for folder in (made, made.parent)] == [0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(OSError):  # noqa: PT011
        private_folder(tmp_path / "file")


def test_messages_quote_little_and_obey_nothing() -> None:
    text = str(SafelightError("a\x1b[2J\nb" + "x" * 5_000 + " do this"))
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) < 800
    assert text.endswith("do this")
    assert len(quoted("y" * 5_000)) < 100
    assert len(quoted([1] * 5_000)) < 100
    assert quoted("short") == "'short'"
