"""Two clicks from the start page start the download of the right file, in the real window with a pretended card."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.models.controller import ModelsController
from app.window.main_window import MainWindow
from engine import MINI, PUBLISHED
from engine.catalog import GEMMA_4_BIT, resolve
from engine.hub.record import size_of
from engine.hub_cache import repo_folder
from engine.memory import plan as planning
from engine.memory.machine import Machine
from tests.app.models.machines import RTX_4090, without
from tests.engine.hub.server import Hub, serving

Open = Callable[..., MainWindow]
SOON = 20_000  # milliseconds
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the three files of the 26B, which has a small model in their places."""
    small = {path.name: path.read_bytes() for path in resolve(MINI).iterdir()}
    with serving(Hub({model.repo: small for model in PUBLISHED})) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10**12))
        yield running
        running.gate.set()


def opened(qtbot: QtBot, open_window: Open, machine: Machine) -> MainWindow:
    window = open_window(None)
    window.context.machine = lambda: machine
    window.context.load(MINI)
    qtbot.waitUntil(lambda: window.context.model is not None)
    return window


def hero_of(qtbot: QtBot, models: ModelsController) -> str:
    """The key of the recommended model, once its row is there."""
    qtbot.waitUntil(lambda: models.page.hero.rows.count() == 1, timeout=SOON)
    return next(key for key, row in models.page.rows.items() if models.page.hero.rows.indexOf(row) == 0)


def test_two_clicks(qtbot: QtBot, open_window: Open, hub: Hub) -> None:
    window = opened(qtbot, open_window, RTX_4090)
    entry = window.pages.chat().page.welcome.models
    hub.stall_after = 200_000
    qtbot.mouseClick(entry, LEFT)
    models = window.pages.models()
    assert hero_of(qtbot, models) == GEMMA_4_BIT
    page, row = models.page, models.page.rows[GEMMA_4_BIT]
    assert window.pages.stack.currentWidget() is page
    qtbot.waitUntil(lambda: page.focusWidget() is row.buttons["download"], timeout=SOON)
    assert page.hero.machine.text() == "NVIDIA GeForce RTX 4090, 24 GB · 68.7 GB of memory"
    qtbot.waitUntil(lambda: row.memory.text().startswith("✓ Fits your 24 GB card"), timeout=SOON)
    download = row.buttons["download"]
    assert (download.text(), download.property("role")) == ("Download 17.2 GB", "primary")
    qtbot.mouseClick(download, LEFT)
    place = repo_folder(GEMMA_4_BIT)
    qtbot.waitUntil(lambda: any(size_of(p) > 100_000 for p in place.glob("blobs/*.incomplete")), timeout=SOON)
    assert page.hero.rows.indexOf(row) == 0  # its progress is seen where it was begun
    assert row.buttons["pause"].isVisibleTo(row)
    hub.gate.set()
    qtbot.waitUntil(lambda: row.buttons["load"].isVisibleTo(row), timeout=SOON)
    assert row.buttons["load"].property("role") == "primary"


@pytest.mark.parametrize(
    ("machine", "line", "note"),
    [
        (without(16), "No graphics card found · 17.2 GB of memory", "Models run on the processor here."),
        (without(16, "AMD", total_bytes=16 * 2**30), "AMD graphics, 16 GB · 17.2 GB of memory", "through a server"),
    ],
)
def test_what_is_so_with_the_card_is_said(
    qtbot: QtBot,
    open_window: Open,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    line: str,
    note: str,
) -> None:
    monkeypatch.setattr(planning, "free_bytes", lambda _: 24 * 10**9)
    assert hub.requests == 0
    window = opened(qtbot, open_window, machine)
    entry = window.pages.chat().page.welcome.models
    qtbot.mouseClick(entry, LEFT)
    models = window.pages.models()
    hero = models.page.hero
    hero_of(qtbot, models)
    assert hero.machine.text() == line
    assert note in hero.note.text()
