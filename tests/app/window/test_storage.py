"""The settings say what is kept on the disk, and how large it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot

from app.system.folders import Folders
from app.window.dialogs import Storage, sizes_of


def of(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "data", tmp_path / "data" / "models", tmp_path / "data" / "traces", tmp_path / "logs")


def test_sizes_are_of_what_is_kept_and_links_are_not_followed(folders: Folders, tmp_path: Path) -> None:
    assert sizes_of(folders) == {"library": 0, "pictures": 0, "traces": 0, "models": 0}
    for name, size in (
        ("library.sqlite", 1000),
        ("library.sqlite-wal", 200),
        ("library-rescued-1.json", 30),
        ("presets.json", 5),
        ("pictures/a", 40),
        ("traces/a.sltrace", 500),
        ("traces/a.name", 6),
        ("models/one/weights/model.safetensors", 7000),
    ):
        of(folders.data / name, size)
    if sys.platform != "win32":
        of(tmp_path / "elsewhere", 10**6)
        os.symlink(tmp_path / "elsewhere", folders.models / "link")
    assert sizes_of(folders) == {"library": 1230, "pictures": 40, "traces": 506, "models": 7000}


def test_they_are_read_when_it_is_shown(qtbot: QtBot, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    of(folders.traces / "a.sltrace", 3400)
    shown = Storage(folders)
    qtbot.addWidget(shown)
    shown.show()
    qtbot.waitUntil(lambda: shown.sizes["traces"].text() == "3 kB")
    assert shown.sizes["models"].text() == "0 B"
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    shown.open.click()
    assert opened == [str(folders.data)]
