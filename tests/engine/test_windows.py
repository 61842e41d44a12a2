"""Windows' rules for names, paths, renames and a card's memory, played through on any system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from engine import SafelightError, windows
from engine.files import open_regular, stem_of, write_text
from engine.memory import plan
from engine.memory.device import choose
from engine.memory.footprint import LEAST_CUDA_CONTEXT

GB = 10**9
LONG = "C:\\Users\\somebody\\" + "models\\" * 40 + "config.json"


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    monkeypatch.setattr(windows, "PAUSES", (0.0, 0.0, 0.0))


REFUSED = ("con", "NUL.csv", "Aux .txt", "com1.tar.gz", "LPT³", "CONIN$", "a:b", "what?", "a\tb", "end.", "end ")
TAKEN = ("console.txt", "com", "com10", ".hidden", "naïve 日本 'x' #1.md")


def test_names_that_windows_takes_for_something_else_are_refused() -> None:
    assert [name for name in REFUSED + TAKEN if windows.why_refused(name)] == list(REFUSED)


def test_a_title_becomes_a_name_on_every_system() -> None:
    titles = {"Nul": "_Nul", "a: b/c?": "a  b c", "?": "chat", "x" * 59 + " y": "x" * 59, "…": "chat"}
    assert {title: stem_of(title, "chat") for title in titles} == titles


@pytest.mark.parametrize(
    ("path", "beneath", "then"),
    [
        ("C:\\short\\config.json", 0, "C:\\short\\config.json"),
        (LONG, 0, "\\\\?\\" + LONG),
        (LONG.replace("\\", "/") + "/../x", 0, "\\\\?\\" + LONG.removesuffix("config.json") + "x"),
        ("\\\\server\\share\\" + "a" * 250, 0, "\\\\?\\UNC\\server\\share\\" + "a" * 250),
        ("\\\\?\\" + LONG, 0, "\\\\?\\" + LONG),
        ("C:\\" + "a" * 200, 40, "C:\\" + "a" * 200),
        ("C:\\" + "a" * 200, 60, "\\\\?\\C:\\" + "a" * 200),
    ],
)
def test_long_paths_are_written_in_the_form_without_a_limit(path: str, beneath: int, then: str) -> None:
    assert windows.extended(path, beneath) == then


def test_elsewhere_a_path_is_itself() -> None:
    assert windows.reachable(Path(LONG)) == Path(LONG)


@pytest.mark.usefixtures("on_windows")
@pytest.mark.parametrize("busy", [2, 9])
def test_a_file_that_a_scanner_has_open_is_renamed_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    replace, asked = os.replace, []

    def refuse(source: Path, target: Path) -> None:
        asked.append(target)
        if len(asked) <= busy:
            raise PermissionError(13, "The process cannot access the file")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    if busy == 2:
        write_text(tmp_path / "a.txt", "new")
        assert (tmp_path / "a.txt").read_text() == "new"
    else:
        with pytest.raises(SafelightError, match=r"a\.txt cannot be written"):
            write_text(tmp_path / "a.txt", "new")
        assert len(asked) == 4
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("on_windows")
def test_what_would_be_a_device_or_a_hidden_stream_is_not_written(tmp_path: Path) -> None:
    for name, why in (("nul.csv", "device"), ("runs.json:old", "':'")):
        with pytest.raises(SafelightError, match=why):
            write_text(tmp_path / name, "lost")
    assert list(tmp_path.iterdir()) == []


def test_links_are_refused_where_the_system_has_no_flag_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW", raising=False)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(SafelightError, match="is a link"):
        open_regular(tmp_path / "link", follow_links=False)
    open_regular(tmp_path / "file", follow_links=False).close()


@pytest.mark.usefixtures("on_windows")
@pytest.mark.parametrize(
    ("others", "own", "spare"),
    [(0, 0, 22.0), (0.5, 0, 22.0), (1.5, 0, 22.0), (5, 0, 19.0), (1, 20, 2.0), (3.9, 20, 0.1), (0, 23.9, 0.0)],
)  # GB of a card with 24
def test_a_card_leaves_room_for_the_desktop(
    monkeypatch: pytest.MonkeyPatch, others: float, own: float, spare: float
) -> None:
    context, taken = LEAST_CUDA_CONTEXT / GB, 24 - others - own
    free = taken - context
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (round(free * GB), 24 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: round(own * GB))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: round(own * GB))
    found = plan.spare_bytes(torch.device("cuda", 0)) / GB
    assert found == pytest.approx(max(0.0, min(free, spare - context)), abs=1e-6)
    monkeypatch.setattr(windows, "IS_WINDOWS", False)
    assert plan.spare_bytes(torch.device("cuda", 0)) / GB == pytest.approx(max(0.0, free), abs=1e-6)


def test_a_torch_without_cuda_is_not_mistaken_for_a_missing_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose().reason == "no CUDA device is available"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert choose().reason == "torch is installed without CUDA"
    with pytest.raises(SafelightError, match="--torch-backend auto"):
        choose("cuda")
