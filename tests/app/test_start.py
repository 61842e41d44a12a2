"""The start: if a part of it fails, the window opens and says so, and every thread ends. And ``--self-test``."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

import app.main
import app.models.controller
from app.bridge.engine_thread import EngineLink
from app.cli import main as command_line
from app.context import AppContext
from app.library import Library, LibraryError, NewMessage
from app.self_test import SelfTest
from app.settings import store
from app.settings.preferences import Preferences
from app.settings.store import open_settings, user_settings
from app.system import logs
from app.system.folders import Folders, default_data_folder
from app.window.main_window import MainWindow
from engine import SafelightError
from engine.errors import spoken
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other files and other rights")


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def said(window: MainWindow) -> str:
    return window.pages.chat().page.notice.message.text() if window.pages.chat().page.notice.isVisible() else ""


# ---------------------------------------------------------------- parts of the start


def test_a_conversation_that_ended_the_app_is_not_shown_again_by_itself(
    open_window: Open, settings: QSettings, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    library = Library.open(default_data_folder())
    id = library.create(title="Kept")
    library.add(id, NewMessage(None, "user", "text"))
    library.close()
    store.write_conversation(settings, id)
    window = open_window(None)
    with monkeypatch.context() as context:
        context.setattr(type(window.context.session), "open", fails(SystemExit("the end")))  # as a kill
        with pytest.raises(SystemExit):
            window.reopening.reopen()
    window.reopening.reopen()
    assert window.context.session.conversation is None
    assert "closed while opening it" in said(window)
    monkeypatch.setattr("app.window.reopening.REOPENING_MS", 0)
    window.reopening.reopen()  # as the next start: once is enough
    assert window.context.session.conversation == id
    qtbot.waitUntil(lambda: store.read_reopening(settings) is None)


def test_a_library_that_cannot_be_purged_or_opened_is_left_alone(
    open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library.open(default_data_folder())
    library.add(library.create(title="Kept"), NewMessage(None, "user", "text"))
    library.close()
    with monkeypatch.context() as context:
        context.setattr(Library, "purge", fails(LibraryError("held")))
        window = open_window(None)
    assert [found.title for found in window.context.session.library.summaries()] == ["Kept"]
    monkeypatch.setattr(Library, "open", fails(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "in the schema")))
    assert "conversations are not saved" in said(open_window(None))


@pytest.mark.parametrize("error", [LibraryError("the disk sleeps"), RecursionError("too deep")])
def test_a_part_that_fails_costs_that_part_and_is_said(
    qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Library, "summaries", fails(error))
    monkeypatch.setattr(app.models.controller, "entries", fails(OverflowError("of the models")))
    (default_data_folder() / "presets.json").mkdir(parents=True)
    window = open_window(None)
    window.reopening.reopen()
    assert spoken(error) in said(window)
    assert "presets were damaged" in said(window)
    qtbot.waitUntil(lambda: "models could not be listed" in said(window))
    monkeypatch.undo()
    window.conversations.refresh()
    window.pages.models().refresh()
    assert window.context.slot.models


def test_after_the_start_a_message_takes_the_place_of_the_one_before(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(None)
    window.context.say("one")
    window.context.say("two.")
    assert said(window) == "one. two."
    qtbot.waitUntil(lambda: window.notices._said_at_start is None)
    window.context.say("three")
    assert said(window) == "three"


@posix
def test_a_data_folder_that_cannot_be_used_is_said_and_no_other_is_written(
    open_window: Open, settings: QSettings, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for folder in (tmp_path / "loop", Path("/x" * 2_500)):
        settings.setValue("app/data_folder", str(folder))
        window = open_window(None)
        assert "choose another data folder" in said(window)
        assert window.context.folders.data == folder
    assert not default_data_folder().exists()
    assert store.unread(settings) == ""


@pytest.mark.parametrize("folder", ["/a\0b", "relative", 7, ["/a", "/b"]])
def test_a_data_folder_that_is_no_path_is_said(settings: QSettings, folder: object) -> None:
    settings.setValue("app/data_folder", folder)
    assert store.read_preferences(settings).data_folder == ""
    assert "Choose it again" in store.unread(settings)


# ---------------------------------------------------------------- every exit


def test_every_thread_ends_where_the_window_cannot_be_made(
    qapp: object,  # noqa: ARG001 - and with it the check for threads that were left
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGINT), sys.excepthook
    monkeypatch.setattr(app.main, "MainWindow", fails(RuntimeError("no window")))
    with pytest.raises(RuntimeError, match="no window"):
        app.main.run()
    assert (signal.getsignal(signal.SIGINT), sys.excepthook) == before


@posix
def test_ctrl_c_closes_the_window_in_order_also_while_it_is_being_made() -> None:
    code = (
        "import os, signal, app.main as m; make = m.MainWindow\n"
        "def interrupted(*given):\n"
        "    os.kill(os.getpid(), signal.SIGINT); window = make(*given); os.kill(os.getpid(), signal.SIGINT)\n"
        "    return window\n"
        "m.MainWindow = interrupted; print('ended', m.run())\n"
        "from PySide6.QtCore import QTimer; m.MainWindow = make\n"
        "QTimer.singleShot(0, lambda: os.kill(os.getpid(), signal.SIGINT)); print('ended', m.run())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("ended 0\nended 0\n", 0), done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- the settings' file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "Safelight.conf"
    path.parent.mkdir()
    return path


def aside(file: Path) -> list[Path]:
    return list(file.parent.glob("Safelight.damaged-*.conf"))


@pytest.mark.parametrize("damage", [b"\x93 damaged\n[window\ntheme=paper\n", None])
def test_settings_that_cannot_be_read_are_set_aside(file: Path, damage: bytes | None) -> None:
    file.mkdir() if damage is None else file.write_bytes(damage)
    settings, problem = open_settings(file)
    assert str(aside(file)[0]) in problem
    assert store.read_preferences(settings) == Preferences()
    settings.setValue("window/theme", "paper")
    settings.sync()
    again, problem = open_settings(file)
    assert (problem, store.read_preferences(again).theme) == ("", "paper")


def test_settings_that_cannot_be_kept_hold_for_the_session(tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    settings, problem = open_settings(tmp_path / "config" / "Safelight.conf")
    assert "last until Safelight is closed" in problem
    settings.setValue("window/theme", "paper")
    assert store.read_preferences(settings).theme == "paper"


def test_what_qsettings_writes_is_read_again(file: Path) -> None:
    values = {
        "app/data_folder": "/home/été/a b\u00a0c, d;e=f@g\"h'\\i",
        "models/folders": ["/x", "/y,z", "@w"],
        "a name/\u00e9 %/\U0001d4b3": 2,
        "sampler/text": " lead\nand new line ",
    }
    settings, _ = open_settings(file)
    for key, value in values.items():
        settings.setValue(key, value)
    settings.sync()
    again, problem = open_settings(file)
    assert problem == ""
    for key in ("app/data_folder", "models/folders", "sampler/text"):
        assert again.value(key) == values[key]


@posix
def test_settings_are_their_users_alone(file: Path) -> None:
    file.parent.rmdir()
    for existing in (False, True):
        settings, _ = open_settings(file)
        settings.setValue("window/text_percent", 120 + existing)
        settings.sync()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        file.chmod(0o644)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the system keeps the settings there")
def test_the_users_settings_are_where_qsettings_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_settings()[0].fileName() == str(tmp_path / "Safelight" / "Safelight.conf")


# ---------------------------------------------------------------- the log


@posix
def test_the_log_is_its_users_alone_and_goes_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (tmp_path / "other").write_text("of somebody else")
    os.mkfifo(folder / "safelight.log")
    (folder / "safelight.log.1").symlink_to(tmp_path / "other")
    path = logs.start(folder)
    try:
        for number in range(3):
            logs.log.handlers[-1].doRollover()  # type: ignore[attr-defined]
            logs.log.info("line %d", number)
    finally:
        logs.stop()
    assert (tmp_path / "other").read_text() == "of somebody else"
    written = [folder / name for name in ("safelight.log", "safelight.log.1", "safelight.log.2")]
    assert [stat.S_IMODE(each.stat().st_mode) for each in written] == [0o600] * 3
    assert "line 2" in path.read_text(encoding="utf-8").splitlines()[-1]


def test_the_app_runs_without_a_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert "Errors are not logged" in app.main.start_log(tmp_path / "file")
    with pytest.raises(SafelightError):
        logs.start(tmp_path / "file" / "below")
    logs.start(tmp_path / "log")
    try:
        monkeypatch.setattr(os, "open", fails(OSError(28, "No space left on device")))
        logs.log.info("lost")
    finally:
        monkeypatch.undo()
        logs.stop()
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------- --self-test, with an engine that needs no model


@pytest.fixture
def window(qtbot: QtBot, settings: QSettings, fake: FakeEngine, tmp_path: Path) -> Iterator[MainWindow]:
    link = EngineLink(fake)
    window = MainWindow(
        AppContext(link, settings, Library.in_memory(), Folders(tmp_path, tmp_path, tmp_path, tmp_path), seed=3)
    )
    qtbot.addWidget(window)
    with qtbot.waitExposed(window):
        window.show()
    yield window
    link.shutdown()


def finish(qtbot: QtBot, window: MainWindow, test: SelfTest) -> int:
    qtbot.waitUntil(lambda: not window.isVisible())
    return test.code


def test_the_answer_is_printed_and_the_window_closes(
    qtbot: QtBot, window: MainWindow, fake: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    test = SelfTest(window, "What is this?")
    window.context.load("model")
    assert finish(qtbot, window, test) == 0
    [turn] = window.context.session.chat.turns
    assert fake.prompts[-1][-1]["content"] == turn.prompt == "What is this?"
    assert capsys.readouterr().out == f"{turn.answer.text}\n"


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        ("missing", {}, "there is no model at missing"),
        ("model", {"fail_at": 1}, "the graphics card fell out"),
        ("model", {"text_length": 0}, "the answer is done: empty"),
    ],
    ids=["not loaded", "raised", "empty"],
)
def test_a_model_or_a_run_that_fails_and_an_empty_answer_fail_it(
    qtbot: QtBot,
    window: MainWindow,
    fake: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    model: str,
    changes: dict[str, int],
    said: str,
) -> None:
    vars(fake).update(changes)
    test = SelfTest(window, "What is this?")
    window.context.load(model)
    assert finish(qtbot, window, test) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_a_window_closed_before_the_answer_has_failed(qtbot: QtBot, window: MainWindow) -> None:
    test = SelfTest(window, "What is this?")
    window.close()
    assert finish(qtbot, window, test) == 1


def test_a_data_folder_that_cannot_be_used_ends_it_before_a_window_opens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("app.main.MainWindow", lambda *_: pytest.fail("a window was opened"))
    assert command_line.main(["--self-test", "What is this?"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"safelight: {tmp_path / 'file'}")
    assert "cannot be used" in err
