"""The real window with a real embedded model in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.main import make_window, traces_folder
from app.state.run.pace import FULL_SPEED
from app.window.main_window import MainWindow
from tests.loaded import ReadyBackend

LOAD_MS = 180_000


@pytest.fixture
def window_with(qtbot: QtBot, settings: QSettings) -> Iterator[Callable[..., MainWindow]]:
    """Opens a window, loads this model in it, and lets it run at full speed; closed afterwards."""
    window = make_window(EngineLink(ReadyBackend(traces_folder(settings))), settings, seed=3)
    qtbot.addWidget(window)

    def load(model: str, *, offline: bool = False) -> MainWindow:
        window.context.values.speed = FULL_SPEED
        window.context.apply_values()
        with qtbot.waitSignal(window.firstPainted):
            window.show()
        if offline:
            window.context.set_offline(True)
        window.context.load(model)
        qtbot.waitUntil(lambda: window.context.model is not None, timeout=LOAD_MS)
        return window

    yield load
    window.close()
