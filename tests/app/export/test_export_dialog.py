"""The dialog writes what it asks for; stopping, refusals, and the one thing it remembers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QComboBox, QFileDialog

from app.export import FORMATS
from app.inspector.export_dialog import ExportDialog
from app.player.player import Player
from app.state.run.replay import Replay
from engine import Trace

Opened = Callable[..., ExportDialog]


@pytest.fixture
def opened(qtbot: Any, settings: QSettings, several: Trace) -> Opened:
    players = []

    def open(trace: Trace | None = several, place: int | None = None) -> ExportDialog:
        player = Player()
        players.append(player)
        if trace is not None:
            player.open(trace, place)
        dialog = ExportDialog(player, None, settings)
        qtbot.addWidget(dialog)
        dialog.show()
        return dialog

    return open


def pick(box: QComboBox, value: object) -> None:
    box.setCurrentIndex(box.findData(value))


def test_writes_the_format_that_is_chosen(
    opened: Opened, qtbot: Any, tmp_path: Path, settings: QSettings, several: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = opened()
    assert [dialog.format.itemData(place) for place in range(dialog.format.count())] == list(FORMATS)
    pick(dialog.format, "gif")
    path = tmp_path / "run.gif"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path.with_suffix("")), ""))
    with qtbot.waitSignal(dialog.exported):
        dialog.go.click()
    with Image.open(path) as image:
        assert image.n_frames == len(Replay(several).frames)
    assert dialog.message.text().startswith("Written")
    assert str(path) in dialog.message.text()
    assert settings.allKeys() == ["export/folder"]
    assert settings.value("export/folder") == str(tmp_path)


def test_starts_in_the_folder_of_the_last_time_with_a_name_without_the_prompt(
    opened: Opened, settings: QSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []

    def unnamed(_parent: object, _title: str, name: str, _kinds: str) -> tuple[str, str]:
        named.append(name)
        return "", ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", unnamed)
    for folder in (tmp_path, tmp_path / "gone"):
        settings.setValue("export/folder", str(folder))
        dialog = opened()
        dialog.go.click()
        assert not dialog.is_busy
    assert named[0] == str(tmp_path / "safelight-mini-seed-1.html")
    assert not named[1].startswith(str(tmp_path))


def test_what_is_asked_for_is_what_is_written(opened: Opened, qtbot: Any, tmp_path: Path, several: Trace) -> None:
    dialog = opened(place=2)
    dialog.prompt.setChecked(False)
    pick(dialog.format, "json")
    with qtbot.waitSignal(dialog.exported):
        dialog.write(tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["header"]["prompt"] == ""
    pick(dialog.format, "gif")
    pick(dialog.which, "block")
    dialog.fps.setValue(10)
    with qtbot.waitSignal(dialog.exported):
        dialog.write(tmp_path / "run.gif")
    with Image.open(tmp_path / "run.gif") as image:
        assert image.n_frames == Replay(several).first_of(1)
        assert image.info["duration"] == 100
    pick(dialog.which, "here")
    assert dialog.options().frames == (2,)
    pick(dialog.format, "png")
    pick(dialog.which, "fitting")
    assert dialog.options().frames == (2,)


def test_stopping_leaves_nothing_and_the_dialog_open(opened: Opened, tmp_path: Path) -> None:
    dialog = opened()
    pick(dialog.format, "gif")
    dialog.write(tmp_path / "run.gif")
    assert dialog.is_busy
    assert not dialog.format.isEnabled()
    assert dialog.close_button.text() == "Cancel"
    dialog._timer.stop()  # so that it is not done before it is stopped
    while dialog.progress.value() <= 100:
        dialog._slice()
    dialog.close_button.click()
    assert not dialog.is_busy
    assert dialog.isVisible()
    assert "Nothing was written" in dialog.message.text()
    assert dialog.format.isEnabled()
    assert list(tmp_path.iterdir()) == []


def test_refusals_are_a_sentence(opened: Opened, qtbot: Any, tmp_path: Path) -> None:
    dialog = opened()
    dialog.write(tmp_path / "none" / "run.html")
    qtbot.waitUntil(lambda: not dialog.is_busy)
    assert "there is no folder" in dialog.message.text()
    assert dialog.message.property("role") == "error"
