"""Models in the stores of other programs on the page: found in a thread, used by one click, refused by kind."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

import engine.models.opening
from app.models.controller import ModelsController
from engine import MINI, found
from engine.catalog import resolve
from tests.app.models.contexts import SOON
from tests.engine import gguf_files
from tests.engine.stores import hugging_face, lm_studio, ollama

Open = Callable[[], ModelsController]
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_files.small(tmp_path_factory.mktemp("gguf") / "small-Q8_0.gguf", resolve(MINI), "llama")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(found, "home", lambda: tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def test_one_click_uses_what_was_found(
    qtbot: QtBot, open_page: Open, home: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, scan = set[str](), found.scan
    monkeypatch.setattr(found, "scan", lambda *places: threads.add(threading.current_thread().name) or scan(*places))
    cached = hugging_face(home / "hub", "org/small-GGUF", [whole]) / whole.name
    studio = lm_studio(home / ".lmstudio/models", "publisher", "repo", whole)
    blob = ollama(home / ".ollama/models", "smollm2:135m", whole)
    models = open_page()
    section = models.page.found
    assert list(section.rows) == [str(cached), str(studio), str(blob)]
    assert threads == {"safelight-search-jobs"}
    assert section.isVisibleTo(models.page)
    names = [row.accessibleName() for row in section.rows.values()]
    assert names == ["org/small-GGUF", "small-Q8_0", "smollm2:135m"]
    row = section.rows[str(blob)]
    qtbot.waitUntil(lambda: row.memory.text().startswith("✓ Fits"), timeout=SOON)
    with qtbot.waitSignal(models._context.load_asked) as asked:
        qtbot.mouseClick(row.use, LEFT)
    assert asked.args == [str(blob)]
    assert list(section.rows) == [str(cached), str(studio)]
    assert models.page.rows[str(blob)].title.text() == "smollm2:135m"
    assert (str(blob), "smollm2:135m") in models._context.slot.models
    models._do(str(blob), "remove")
    assert list(section.rows) == [str(cached), str(studio), str(blob)]


def test_what_cannot_run_is_one_line_that_opens(qtbot: QtBot, open_page: Open, home: Path, whole: Path) -> None:
    for name, kind in (("a", "bert"), ("b", "mixtral"), ("c", "bert")):
        folder = home / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
        (folder / "model.safetensors").write_bytes(b"x")
        hugging_face(home / "hub", f"org/{name}", folder.iterdir())
    torn = lm_studio(home / ".lmstudio/models", "publisher", "torn", whole)
    torn.unlink()
    torn.write_bytes(whole.read_bytes()[:400])  # its first key is whole
    models = open_page()
    section = models.page.found
    qtbot.waitUntil(lambda: section.fold.text() == "▸ 4 others cannot run here", timeout=SOON)
    assert not section.rows
    assert not section.refused.isVisibleTo(section)
    qtbot.mouseClick(section.fold, LEFT)
    assert section.refused.isVisibleTo(section)
    first, second = sorted(section.refused.text().splitlines())
    assert first.startswith("1 cannot be opened: small-Q8_0 (")
    assert second == "3 need a family that is not supported: bert; mixtral"


def test_a_folder_of_models_is_looked_into_from_now_on(
    qtbot: QtBot, open_page: Open, home: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = lm_studio(home / "mine", "publisher", "repo", whole)
    models = open_page()
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: str(home / "mine"))
    qtbot.mouseClick(models.page.add, LEFT)
    section = models.page.found
    qtbot.waitUntil(lambda: list(section.rows) == [str(place)], timeout=SOON)
    assert found.find("small-Q8_0") == place  # in the terminal, too
    (link,) = section._links.values()
    qtbot.mouseClick(link, LEFT)
    qtbot.waitUntil(lambda: not section.isVisibleTo(models.page), timeout=SOON)
    assert found.kept() == ()
    (home / "empty" / "deeper").mkdir(parents=True)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: str(home / "empty"))
    qtbot.mouseClick(models.page.add, LEFT)
    said = f"No model was found in {home / 'empty'}."
    qtbot.waitUntil(lambda: models.page.notice.message.text() == said, timeout=SOON)
    assert not section.isVisibleTo(models.page)


def test_a_repository_of_the_cache_is_added_as_its_snapshot(open_page: Open, home: Path) -> None:
    shutil.copytree(resolve(MINI), home / "source")
    snapshot = hugging_face(home / "elsewhere", "org/name", (home / "source").iterdir())
    models = open_page()
    models.add_folder(snapshot.parent.parent)
    assert models.page.rows[str(snapshot)].title.text() == "org/name"
    weights = os.path.realpath(snapshot / "model.safetensors")
    models.add_folder(weights)
    assert "is not a model folder" in models.page.notice.message.text()


def test_what_is_too_large_is_said_apart(
    open_page: Open, home: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    lm_studio(home / ".lmstudio/models", "publisher", "repo", whole)
    counted = engine.models.opening.plan_model

    def tight(*arguments: Any, **named: Any) -> object:
        return dataclasses.replace(counted(*arguments, **named), longest=0, device_bytes=1)

    monkeypatch.setattr(engine.models.opening, "plan_model", tight)
    section = open_page().page.found
    qtbot.waitUntil(lambda: section.rows == {}, timeout=SOON)
    assert section.refused.text().startswith("1 is too large for this computer: small-Q8_0 (")
