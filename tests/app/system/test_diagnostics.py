"""Folders, the log, uncaught faults and the report: what they hold, and what they never hold."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import qWarning
from pytestqt.qtbot import QtBot

from app.settings.preferences import Preferences, listed
from app.settings.values import SettingsValues
from app.system import diagnostics, logs
from app.system.crash_handler import QUIET_SECONDS, CrashHandler, one_line
from app.system.diagnostics import Facts
from app.system.folders import Folders, default_data_folder, ensure, folders, shortened
from engine import SafelightError

PROMPT = "a secret prompt about zebras"


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    path = logs.start(tmp_path / "logs")
    yield path
    logs.stop()


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


# ---------------------------------------------------------------- folders


def test_folders_of_the_platform_and_of_the_user(tmp_path: Path) -> None:
    own = folders()
    assert own.data == default_data_folder()
    assert own.models == own.data / "models"
    moved = folders(str(tmp_path / "mine"))
    assert (moved.data, moved.models) == (tmp_path / "mine", tmp_path / "mine" / "models")
    assert moved.logs == own.logs  # the log of a start whose data folder is gone must be somewhere
    assert not moved.data.exists()
    assert ensure(moved.models).is_dir()


def test_a_folder_that_cannot_be_made_is_an_error_that_helps(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file" / "below", tmp_path / "nul\0l"):
        with pytest.raises(SafelightError, match="choose another folder") as caught:
            ensure(bad)
        assert "\n" not in str(caught.value)


def test_home_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/somebody"))
    assert shortened("at /home/somebody/x") == "at ~/x"
    monkeypatch.setattr(Path, "home", lambda: Path("/"))
    assert shortened("at /tmp/x") == "at /tmp/x"


# ---------------------------------------------------------------- log


def test_the_log_holds_where_and_not_what(log_file: Path) -> None:
    fault = raised(ValueError(PROMPT))
    fault.__cause__ = raised(KeyError(PROMPT))
    logs.record(fault, "in a test")
    logs.record(raised(OSError(28, "No space left on device")), "in a test")
    text = log_file.read_text(encoding="utf-8")
    assert "zebras" not in text
    assert "ValueError" in text
    assert "KeyError" in text
    assert "No space left on device" in text
    assert "test_diagnostics.py" in text
    assert "in raised" in text


def test_the_log_is_kept_small(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = next(handler for handler in logs.log.handlers if isinstance(handler, logging.FileHandler))
    monkeypatch.setattr(handler, "maxBytes", 2_000)
    for number in range(200):
        logs.log.info("line %d with some text to fill the file", number)
    files = sorted(log_file.parent.iterdir())
    assert [path.name for path in files] == ["safelight.log", "safelight.log.1", "safelight.log.2"]
    assert all(path.stat().st_size <= 2_000 for path in files)


# ---------------------------------------------------------------- faults


class Told:
    """Faults with a clock of the test's own, and what was told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.faults = CrashHandler(lambda: self.now)
        self.messages: list[str] = []
        self.details: list[str] = []
        self.faults.happened.connect(self.take)

    def take(self, message: str, details: str) -> None:
        self.messages.append(message)
        self.details.append(details)


@pytest.fixture
def told(qapp: object, log_file: Path) -> Iterator[Told]:  # noqa: ARG001
    made = Told()
    yield made
    made.faults.remove()


def test_an_uncaught_fault_is_told_and_the_hooks_go_back(told: Told) -> None:
    before = sys.excepthook, threading.excepthook
    told.faults.install()
    told.faults.install()
    fault = raised(RuntimeError("the graphics card\nfell out."))
    sys.excepthook(type(fault), fault, fault.__traceback__)
    assert told.messages == [one_line(fault)]
    assert told.messages[0].startswith("Something went wrong: the graphics card fell out. Safelight goes on")
    assert "Traceback" in told.details[0]
    told.faults.remove()
    told.faults.remove()
    assert (sys.excepthook, threading.excepthook) == before


def test_no_object_of_the_program_is_shown_to_a_person(told: Told) -> None:
    told.faults.take(raised(KeyError(told)), "in a slot")
    said = "Something went wrong: an unexpected fault, KeyError. Safelight goes on."
    assert told.messages == [f"{said} To report it, use Copy diagnostics in the settings."]
    assert "KeyError" in told.details[0]


def test_a_fault_in_a_thread_is_told(qtbot: QtBot, told: Told, log_file: Path) -> None:
    told.faults.install()

    def fall() -> None:
        raise ZeroDivisionError(PROMPT)

    thread = threading.Thread(target=fall)
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: bool(told.messages))
    text = log_file.read_text(encoding="utf-8")
    assert "ZeroDivisionError" in text
    assert "in another thread" in text
    assert PROMPT not in text


def test_the_same_place_is_not_told_all_the_time(told: Told) -> None:
    for _frame in range(60):
        told.faults.take(raised(ValueError("again")), "in painting")
    assert len(told.messages) == 1
    told.faults.take(raised(TypeError("another")), "in painting")
    assert len(told.messages) == 2
    told.now += QUIET_SECONDS
    told.faults.take(raised(ValueError("again")), "in painting")
    assert len(told.messages) == 3


def test_our_own_errors_are_told_as_they_are() -> None:
    assert one_line(SafelightError("the disk is full; free some space")) == "the disk is full; free some space"


def test_warnings_of_qt_go_into_the_log(told: Told, log_file: Path, qtlog: object) -> None:
    with qtlog.disabled():  # type: ignore[attr-defined]
        told.faults.install(qt_messages=True)
        qWarning("a warning of Qt")
        told.faults.remove()
        qWarning("another one")
    text = log_file.read_text(encoding="utf-8")
    assert "a warning of Qt" in text
    assert "another one" not in text


# ---------------------------------------------------------------- report


def test_the_report_tells_what_helps_and_nothing_private(
    log_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    logs.record(raised(ValueError(PROMPT)), "in a test")
    values = SettingsValues(overrides={"entropy_bound": 0.25}, seed=7)
    preferences = Preferences(theme="paper", offline=True, data_folder=str(tmp_path / "data"))
    places = Folders(tmp_path / "data", tmp_path / "data" / "models", tmp_path / "data" / "traces", log_file.parent)
    facts = Facts(str(tmp_path / "my-model"), "cpu", "plain", "asked for")
    text = diagnostics.report(listed(preferences, values), places, facts)
    for line in (
        f"Python: {sys.version.split()[0]}",
        "Model: ~/my-model",
        "Device: cpu (asked for)",
        "Kernels: plain",
        "theme = paper",
        "offline = True",
        "entropy_bound = 0.25",
        "seed = 7",
        "Data folder: ~/data",
    ):
        assert line in text.splitlines()
    assert "Safelight: " in text
    assert "Qt: " in text
    assert "ValueError" in text
    assert str(tmp_path) not in text
    assert "zebras" not in text
