"""What a start on Windows does before Qt, and a log that two windows write there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.system import logs, windows_start
from app.system.folders import ensure
from engine import SafelightError, windows


def test_torchs_library_is_loaded_from_its_package_and_on_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    windows_start.load_torch_before_qt(loaded.append)
    assert loaded == []
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    windows_start.load_torch_before_qt(loaded.append)
    assert [Path(path).parts[-3:] for path in loaded] == [("torch", "lib", "c10.dll")]
    windows_start.load_torch_before_qt()  # which is not there: reported when a model is loaded


def test_it_comes_before_the_first_import_of_qt() -> None:
    source = Path(windows_start.__file__).parents[1].joinpath("main.py").read_text(encoding="utf-8")
    assert source.index("load_torch_before_qt()") < source.index("PySide6")


def test_the_taskbar_gets_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    shell = SimpleNamespace(SetCurrentProcessExplicitAppUserModelID=named.append)
    system = SimpleNamespace(windll=SimpleNamespace(shell32=shell))
    windows_start.name_in_taskbar(system)
    assert named == []
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    windows_start.name_in_taskbar(system)
    windows_start.name_in_taskbar(SimpleNamespace())  # a Windows without it
    assert named == [windows_start.TASKBAR_ID]


def test_a_log_that_another_window_has_open_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "used by another process")

    monkeypatch.setattr(logs, "BYTES", 200)
    path = logs.start(tmp_path)
    monkeypatch.setattr(os, "rename", refuse)
    try:
        for number in range(20):
            logs.log.info("line %d", number)
        assert [line.split()[-1] for line in path.read_text().splitlines()] == [str(number) for number in range(20)]
    finally:
        logs.stop()


def test_a_data_folder_leaves_room_for_the_names_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 40)
    assert ensure(folder) == folder
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    with pytest.raises(SafelightError, match="too long for Windows"):
        ensure(folder)
