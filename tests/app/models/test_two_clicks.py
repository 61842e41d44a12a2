"""Two clicks from the start page start the download of the right file, in the real window with a pretended card."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine import MINI, PUBLISHED
from engine.catalog import GEMMA_4_BIT, resolve
from engine.hub.record import size_of
from engine.hub_cache import repo_folder
from tests.app.models.contexts import SOON
from tests.app.models.machines import RTX_4090
from tests.engine.hub.server import Hub, serving

Open = Callable[..., MainWindow]
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


def test_two_clicks(qtbot: QtBot, open_window: Open, hub: Hub) -> None:
    window = open_window(None)
    window.context.machine = lambda: RTX_4090
    window.context.load(MINI)
    qtbot.waitUntil(lambda: window.context.model is not None)
    entry = window.pages.chat().page.welcome.models
    hub.stall_after = 200_000
    qtbot.mouseClick(entry, LEFT)
    models = window.pages.models()
    page = models.page
    qtbot.waitUntil(lambda: page.hero.rows.count() == 1, timeout=SOON)
    row = page.rows[GEMMA_4_BIT]
    assert page.hero.rows.indexOf(row) == 0
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
