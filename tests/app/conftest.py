"""The window with a stand-in engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from engine import MINI
from engine.memory.machine import Machine
from tests.fake_engine import FakeEngine

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from pytestqt.qtbot import QtBot

    from app.context import AppContext
    from app.window.main_window import MainWindow


class Asked:
    """A navigator that notes what it is asked for, by names."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **_named: self.calls.append((name, *given))


PATIENCE_MS = 30_000  # the first load of a process imports what loads models


PAUSES = {  # milliseconds in place of those for which people are waited for
    ("app.bridge.background", "POLL_MS"): 2,
    ("app.bridge.server_link", "LOOK_MS"): 10,
    ("app.chat.composer.meter", "DEBOUNCE_MS"): 20,
    ("app.sudoku.page", "CHECK_MS"): 10,
    ("app.window.sidebar.sidebar", "REST_MS"): 10,
}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what waits for a person who types or reads go on at once."""
    for (module, name), pause in PAUSES.items():
        if module in sys.modules:
            monkeypatch.setattr(sys.modules[module], name, pause)


@pytest.fixture
def fake() -> FakeEngine:
    """An engine without tensors."""
    return FakeEngine()


@pytest.fixture
def open_context(qtbot: QtBot, fake: FakeEngine, settings: QSettings) -> Iterator[Callable[..., AppContext]]:
    """Opens what pages are handed, without a window; closed again at the end."""
    from app.bridge.engine_thread import EngineLink
    from app.main import make_context  # Qt only where a test asks for it

    opened: list[AppContext] = []

    def open_one(model: str | None = MINI, seed: int | None = None, **link: Any) -> AppContext:
        if settings.value("canvas/pace") is None:
            settings.setValue("canvas/pace", "inf")  # a test that looks at the pace sets one
        context = make_context(EngineLink(fake, **link), settings, seed)
        context.navigator = Asked()
        context.machine = lambda: Machine(16 * 2**30)
        opened.append(context)
        if model is not None:
            context.load(model)
            qtbot.waitUntil(lambda: context.model is not None, timeout=PATIENCE_MS)
        return context

    yield open_one
    fake.hold = False
    fake.gate.release(10)  # for whoever waits there
    for context in opened:
        context.close()


@pytest.fixture
def open_window(
    qtbot: QtBot, fake: FakeEngine, open_context: Callable[..., AppContext]
) -> Iterator[Callable[..., MainWindow]]:
    """Opens windows that are closed again at the end."""
    from app.design.fonts import set_text_percent, text_percent
    from app.window.main_window import MainWindow

    opened: list[MainWindow] = []
    percent = text_percent()  # the app's, which a window may change

    def open_one(model: str | None = MINI, seed: int | None = None, **link: Any) -> MainWindow:
        context = open_context(None, seed, **link)
        window = MainWindow(context)
        opened.append(window)
        qtbot.addWidget(window)
        with qtbot.waitSignal(window.firstPainted):
            window.show()
        if model is not None:
            context.load(model)
            qtbot.waitUntil(lambda: context.model is not None, timeout=PATIENCE_MS)
        return window

    yield open_one
    fake.hold = False
    fake.gate.release(10)  # for whoever waits there
    for window in opened:
        window.close()
    set_text_percent(percent)
