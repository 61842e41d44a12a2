"""The server page on the real window, with a stand-in engine and real requests over the loopback interface."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keyring
import pytest
from PySide6.QtCore import QSettings
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

import tests.hasty_servers  # noqa: F401
from app.context import SERVER
from app.server.snippets import MASK
from app.window.main_window import MainWindow
from tests.app.system.test_secret import Absent, Working
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]
SOON = 20_000  # milliseconds; only a hanging test needs them
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def vault() -> Iterator[Working]:
    """The system's keyring."""
    before, found = keyring.get_keyring(), Working()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


def page_of(window: MainWindow) -> Any:
    window.show_page(SERVER)
    return window.pages[SERVER].widget


def switch_on(qtbot: QtBot, window: MainWindow) -> Any:
    """The page, with the server on at a free port."""
    page = page_of(window)
    page.card.port.setValue(0)
    page.card.switch.click()
    qtbot.waitUntil(lambda: window.context.server.is_on, timeout=SOON)
    return page


class Asking:
    """A client in a thread of its own; its answer once it is there."""

    def __init__(self, window: MainWindow, key: str | None = None) -> None:
        state = window.context.server.state
        self.status, self.body = 0, b""
        self._thread = threading.Thread(target=self._ask, args=(state.url, key or state.key))
        self._thread.start()

    def _ask(self, url: str, key: str) -> None:
        host, _, path = url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=10)
        said = json.dumps({"model": "safelight-mini", "messages": [{"role": "user", "content": "hello"}]})
        connection.request("POST", f"/{path}/chat/completions", said, {**JSON, "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        self.status, self.body = answer.status, answer.read()
        connection.close()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()


def test_a_request_is_listed_while_it_runs_and_followed_in_the_inspector(
    qtbot: QtBot, open_window: Open, fake: FakeEngine
) -> None:
    window = open_window()
    page = switch_on(qtbot, window)
    assert window.status.text("server") == "Server on"
    assert page.requests.empty.isVisible()
    fake.hold = True
    asked = Asking(window)
    fake.gate.release()
    qtbot.waitUntil(lambda: any(row.inspect.isEnabled() for row in page.requests.rows.values()), timeout=SOON)
    (row,) = page.requests.rows.values()
    assert (row.title.text(), row.state.text(), row.stop.isVisibleTo(row)) == ("Chat", "● Running", True)
    assert window.status.text("server") == "Server on · 1 request"
    row.inspect.click()
    inspected = window.pages.inspector().page
    assert window.pages.stack.currentWidget() is inspected
    assert inspected.player.trace is row.request.trace
    fake.gate.release(2)
    qtbot.waitUntil(lambda: asked.is_over, timeout=SOON)
    assert (asked.status, b"choices" in asked.body) == (200, True)
    qtbot.waitUntil(lambda: row.state.text() == "✓ Finished", timeout=SOON)
    assert not row.stop.isVisibleTo(row)
    assert len(inspected.player.replay.frames) == 5  # noise, three steps, the end
    assert window.status.text("server") == "Server on"


def test_a_request_is_stopped_and_ends_with_its_model(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    window = open_window()
    page = switch_on(qtbot, window)
    fake.hold = True
    asked = Asking(window)
    qtbot.waitUntil(lambda: any(row.inspect.isEnabled() for row in page.requests.rows.values()), timeout=SOON)
    (row,) = page.requests.rows.values()
    row.stop.click()
    fake.gate.release(100)
    qtbot.waitUntil(lambda: asked.is_over, timeout=SOON)
    assert asked.status == 503
    qtbot.waitUntil(lambda: row.state.text() == "– Cancelled", timeout=SOON)
    context = window.context
    context.session.ask("hello", (), context.model)
    qtbot.waitUntil(lambda: context.session.active is None, timeout=SOON)
    assert context.session.chat.turns[0].answer.status == "done"
    assert page.card.served.text().startswith("Safelight Mini answers this window")
    context.load(f"{context.server.state.url}#safelight-mini")
    assert "own server" in page.notice.message.text()
    fake.gate = threading.Semaphore(0)
    asked = Asking(window)
    qtbot.waitUntil(lambda: len(page.requests.rows) == 2, timeout=SOON)
    context.slot.unload()  # which ends what is asked of the model
    fake.gate.release(100)
    qtbot.waitUntil(lambda: asked.is_over, timeout=SOON)
    assert asked.status == 503
    qtbot.waitUntil(lambda: context.model is None, timeout=SOON)
    assert page.card.served.text().startswith("No model is loaded.")


def test_a_port_that_is_taken_is_said(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    with socket.create_server(("127.0.0.1", 0)) as other:
        page = page_of(window)
        page.card.port.setValue(other.getsockname()[1])
        page.card.switch.click()
        qtbot.waitUntil(lambda: page.notice.isVisible(), timeout=SOON)
        assert "is used by another program" in page.notice.message.text()
        assert (page.card.status.text(), window.status.text("server")) == ("✕ Not started", "")
    page.card.port.setValue(0)
    qtbot.waitUntil(lambda: window.context.server.is_on, timeout=SOON)
    assert not page.notice.isVisible()


def test_the_key_is_kept_shown_and_renewed(qtbot: QtBot, open_window: Open, vault: Working) -> None:
    window = open_window()
    page = switch_on(qtbot, window)
    (key,) = vault.kept.values()
    assert page.card.key.displayText() != key
    width = page.card.copy_key.sizeHint().width()
    page.card.copy_key.click()
    assert page.card.copy_key.text() == "Copied"
    assert page.card.copy_key.sizeHint().width() == width  # or its neighbours would move
    assert QGuiApplication.clipboard().text() == key
    page.show_connecting()
    assert MASK in page.connect_panel.code.toPlainText()
    assert key in page.connect_panel.text()
    assert key not in repr(window.context.server.state)
    page.card.show_key.click()
    assert page.card.key.displayText() == key
    assert key in page.connect_panel.code.toPlainText()
    page.card.new_key.click()
    qtbot.waitUntil(lambda: window.context.server.is_on, timeout=SOON)
    assert window.context.server.state.key not in ("", key)
    asked = Asking(window, key)
    qtbot.waitUntil(lambda: asked.is_over, timeout=SOON)
    assert asked.status == 401


def test_it_starts_with_the_app_where_it_was_on(qtbot: QtBot, open_window: Open, settings: QSettings) -> None:
    settings.setValue("server/on", True)
    settings.setValue("server/port", 0)
    keyring.set_keyring(Absent())
    window = open_window()
    window.context.serve()
    qtbot.waitUntil(lambda: window.context.server.is_on, timeout=SOON)
    page = page_of(window)
    assert page.card.switch.isChecked()
    assert "lasts until Safelight is closed" in page.card.key_note.text()
    page.card.switch.click()
    qtbot.waitUntil(lambda: not window.context.server.is_on, timeout=SOON)
    assert settings.value("server/on") in (None, False)


def test_offline_it_stays_on_this_machine(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    page = switch_on(qtbot, window)
    assert not page.card.reach.isVisible()
    page.card.open.click()
    qtbot.waitUntil(lambda: window.context.server.is_on and window.context.server.state.is_open, timeout=SOON)
    assert "trust" in page.card.reach.text()
    window.context.set_offline(True)
    qtbot.waitUntil(lambda: window.context.server.is_on and not window.context.server.state.is_open, timeout=SOON)
    assert window.context.server.state.url.startswith("http://127.0.0.1:")
    assert "Offline is on" in page.card.reach.text()
    assert not page.card.open.isEnabled()
