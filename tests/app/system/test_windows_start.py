"""A start on Windows before Qt, and a log that two windows write there."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
    """Qt is reached through the window's module, or straight from a command."""
    app = Path(windows_start.__file__).parents[1]
    sources = [path.read_text(encoding="utf-8") for path in (app / "main.py", *sorted((app / "cli").glob("*.py")))]
    with_qt = [source for source in sources if "from PySide6" in source]
    assert len(with_qt) == 2
    for source in with_qt:
        assert source.index("load_torch_before_qt()") < source.index("from PySide6")


@pytest.mark.parametrize(("consoles", "takes", "can"), [((), True, True), ((1, 2), True, True), ((2,), False, False)])
def test_a_console_is_asked_for_escape_codes(
    monkeypatch: pytest.MonkeyPatch, consoles: tuple[int, ...], takes: bool, can: bool
) -> None:
    """Standard output and error are 1 and 2; what is no console is a pipe."""
    modes: list[tuple[int, int]] = []

    def get(stream: int) -> int:
        return {-11: 1, -12: 2}[stream]

    def read(handle: ctypes.c_void_p, mode: Any) -> int:
        mode._obj.value = 3
        return int(handle.value in consoles)

    def write(handle: ctypes.c_void_p, mode: int) -> int:
        modes.append((handle.value or 0, mode))
        return int(takes)

    kernel = SimpleNamespace(GetStdHandle=get, GetConsoleMode=read, SetConsoleMode=write)
    system = SimpleNamespace(windll=SimpleNamespace(kernel32=kernel))
    assert windows_start.enable_escape_codes(system)
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    assert windows_start.enable_escape_codes(system) is can
    assert modes == [(handle, 7) for handle in consoles]


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
