"""The search on Hugging Face, on the page, against a hub on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import engine.hub_search
import engine.memory.plan
from app.models.controller import ModelsController
from engine import MINI
from engine.catalog import resolve
from engine.hub_cache import snapshot_of
from tests.app.models.contexts import SOON
from tests.engine.hub.server import Hub, model, serving

REPO = "someone/skills"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(engine.memory.plan, "free_bytes", lambda _: 24 * 10**9)
    skills = {path.name: path.read_bytes() for path in resolve(MINI).iterdir()}
    models = [
        model(REPO, "diffusion_gemma", "license:apache-2.0", downloads=1234),
        model("someone/skills-awq", quant_method="awq"),
        *(model(f"someone/skills-{number}") for number in range(6)),
    ]
    with serving(Hub({REPO: skills}, models)) as running:
        yield running


@pytest.fixture
def models(hub: Hub, open_page: Callable[..., ModelsController]) -> ModelsController:
    return open_page(endpoint=hub.endpoint, tokens=SimpleNamespace(read=str))


def search(qtbot: QtBot, models: ModelsController, words: str) -> None:
    section = models.page.hub
    section.words.clear()
    qtbot.keyClicks(section.words, words)
    qtbot.keyClick(section.words, Qt.Key.Key_Return)


def test_from_words_to_a_model_that_can_be_loaded(qtbot: QtBot, hub: Hub, models: ModelsController) -> None:
    section = models.page.hub
    assert section.said.text() == f"The words are sent to 127.0.0.1:{hub.port} once you press Enter."
    section.words.setFocus()
    qtbot.keyClicks(section.words, "skills")
    qtbot.wait(50)
    assert hub.asked == []
    qtbot.keyClick(section.words, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: section.said.text() == "7 models load here.", timeout=SOON)
    assert hub.asked[0].startswith("/api/models?search=skills&filter=safetensors&")
    assert (len(section.rows), section.more.text()) == (5, "Show 2 more")
    assert section.others.text() == "1 other does not load here: awq"
    row = section.rows[REPO]
    qtbot.waitUntil(lambda: row.memory.text().startswith("✓ Fits"), timeout=SOON)
    assert row.facts.text() == "diffusion_gemma · 3.2 MB · licence apache-2.0 · 1,234 downloads in 30 days"
    assert section.rows["someone/skills-0"].facts.text() == "qwen2 · 1 download in 30 days"  # nobody says its size
    for stop in (section.words, section.search):
        qtbot.keyClick(stop, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is row.use
    qtbot.keyClick(row.use, Qt.Key.Key_Space)
    assert (row.use.text(), row.use.isEnabled()) == ("On your list", False)
    place = str(models._states.cache)
    qtbot.waitUntil(lambda: any(key.startswith(place) for key in models.page.rows), timeout=SOON)
    snapshot = snapshot_of(REPO)
    assert REPO not in models.page.rows
    assert models.page.rows[str(snapshot)].title.text() == REPO
    assert (str(snapshot), REPO) in models._context.slot.models
    assert (row.use.text(), row.use.isEnabled()) == ("On your list", False)
    models.found.look()
    qtbot.waitUntil(lambda: models.jobs.phase("", "find") is None, timeout=SOON)
    models._drop(str(snapshot))  # as *Delete* does once it is confirmed
    qtbot.waitUntil(lambda: str(snapshot) not in models.page.rows, timeout=SOON)
    qtbot.waitUntil(lambda: models.jobs.phase("", "find") is None, timeout=SOON)
    assert (row.use.text(), row.use.isEnabled()) == ("Download", True)
    assert not snapshot.exists()
    assert not models.page.found.rows


def test_a_second_search_replaces_the_first(
    qtbot: QtBot, models: ModelsController, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, real = threading.Event(), engine.hub_search.search

    def held(words: str, endpoint: str, cancel: Any) -> object:
        while words == "first" and not cancel.is_set():
            go.wait(0.01)
        return real(words, endpoint, cancel)

    monkeypatch.setattr(engine.hub_search, "search", held)
    search(qtbot, models, "first")
    search(qtbot, models, "skills-4")
    qtbot.waitUntil(lambda: list(models.page.hub.rows) == ["someone/skills-4"], timeout=SOON)
    assert models.page.hub.said.text() == "1 model loads here."


def test_a_fault_is_one_sentence_and_offline_hides_it(qtbot: QtBot, hub: Hub, models: ModelsController) -> None:
    section = models.page.hub
    hub.statuses = [503]
    search(qtbot, models, "skills")
    said = f"{hub.endpoint} refuses with error 503; try again later."
    qtbot.waitUntil(lambda: section.said.text() == said, timeout=SOON)
    search(qtbot, models, "skills")
    models._context.set_offline(True)  # type: ignore[attr-defined]
    assert not section.isVisibleTo(models.page)
    qtbot.waitUntil(lambda: not models.jobs._running, timeout=SOON)
    asked = len(hub.asked)
    section.asked.emit("skills")
    qtbot.wait(50)
    assert len(hub.asked) == asked
    models._context.set_offline(False)  # type: ignore[attr-defined]
    assert section.said.text().endswith("once you press Enter.")
    assert not section.rows


def test_a_closed_model_asks_for_its_licence_and_can_leave_the_list(
    qtbot: QtBot, hub: Hub, models: ModelsController
) -> None:
    hub.models = [model(REPO, "diffusion_gemma", gated="manual")]
    section = models.page.hub
    search(qtbot, models, "skills")
    qtbot.waitUntil(lambda: REPO in section.rows, timeout=SOON)
    assert "a licence, to be accepted first" in section.rows[REPO].facts.text()
    hub.token = "hf_other"
    qtbot.mouseClick(section.rows[REPO].use, Qt.MouseButton.LeftButton)
    listed = models.page.rows[REPO]
    qtbot.waitUntil(lambda: "accept its licence" in listed.notice.message.text(), timeout=SOON)
    assert listed.token.isVisibleTo(models.page)
    qtbot.mouseClick(listed.buttons["remove"], Qt.MouseButton.LeftButton)
    assert REPO not in models.page.rows
    assert section.rows[REPO].use.isEnabled()
