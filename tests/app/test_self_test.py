"""``--self-test`` on the window with an engine that needs no model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.cli import main as command_line
from app.context import AppContext
from app.library import Library
from app.self_test import SelfTest
from app.system.folders import Folders
from app.window.main_window import MainWindow
from tests.fake_engine import FakeEngine


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
