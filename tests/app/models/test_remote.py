"""Servers elsewhere on the models page of the real window, with made-up ones on the loopback interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keyring
import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.bridge.remote_access import RemoteAccess
from app.context import SUDOKU
from app.main import make_context
from app.models.remote_section import RemoteSection
from app.window.main_window import MainWindow
from engine.service.remote import RemoteBackend
from tests.app.models.contexts import SOON
from tests.app.system.test_secret import Working
from tests.engine.hub.rude_server import Request, Rude
from tests.engine.service.remote.servers import chunk, in_json, models, serving, streamed

Open = Callable[[], MainWindow]
KEY = "a-key"


@pytest.fixture(autouse=True)
def vault() -> Iterator[Working]:
    """The system's keyring."""
    before, found = keyring.get_keyring(), Working()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


def guarded(answer: Callable[[Request], None]) -> Callable[[Request], None]:
    """Asks for the key first."""

    def check(request: Request) -> None:
        has_key = request.headers.get("authorization") == f"Bearer {KEY}"
        (answer if has_key else in_json({"error": {"message": "no"}}, "401 Unauthorized"))(request)

    return check


@pytest.fixture
def server() -> Iterator[Rude]:
    said = (chunk({"role": "assistant", "content": ""}), chunk({"content": "A canvas settles."}), chunk({}, "stop"))
    with serving(v1_models=models("org/small", "org/large"), v1_chat_completions=streamed(*said)) as running:
        yield running


@pytest.fixture
def open_window(qtbot: QtBot, settings: QSettings) -> Iterator[Open]:
    opened: list[MainWindow] = []

    def open_one() -> MainWindow:
        access = RemoteAccess()
        link = EngineLink(RemoteBackend(key_of=access.key_of, is_allowed=access.is_allowed))
        window = MainWindow(make_context(link, settings, remote=access))
        qtbot.addWidget(window)
        opened.append(window)
        return window

    yield open_one
    for window in opened:
        window.close()


def section_of(window: MainWindow) -> RemoteSection:
    return window.pages.models().page.servers


def add(qtbot: QtBot, window: MainWindow, address: str, key: str = "") -> Any:
    """Adds a server; returns its row once it has been asked."""
    section = section_of(window)
    known = set(section.rows)
    section.address.setText(address)
    section.key.setText(key)
    section.add_button.click()
    (base,) = set(section.rows) - known
    qtbot.waitUntil(lambda: base in window.pages.models().remote._reachability, timeout=SOON)
    return section.rows[base]


def load(qtbot: QtBot, window: MainWindow, row: Any) -> None:
    row.load.click()
    qtbot.waitUntil(lambda: window.context.model is not None, timeout=SOON)


def test_a_server_is_added_tested_loaded_and_chatted_with(
    qtbot: QtBot, open_window: Open, server: Rude, settings: QSettings
) -> None:
    window = open_window()
    row = add(qtbot, window, server.endpoint)
    assert row.status.text().startswith("✓ Reachable in ")
    assert "only text" in row.purpose.text()
    assert [row.models.itemText(place) for place in range(row.models.count())] == ["org/small", "org/large"]
    load(qtbot, window, row)
    host = server.endpoint.partition("://")[2]
    assert (row.status.text(), row.load.isVisibleTo(row), row.unload.isVisibleTo(row)) == ("● Loaded", False, True)
    assert window.topbar.chooser.currentText() == f"small at {host}"
    assert window.topbar.facts.text() == "remote · text only"
    assert window.status.text("device") == "Remote"
    context = window.context
    context.session.ask("How?", (), context.model)
    qtbot.waitUntil(lambda: context.session.active is None, timeout=SOON)
    (turn,) = context.session.chat.turns
    assert (turn.answer.text, turn.answer.status, turn.answer.has_trace) == ("A canvas settles.", "done", False)
    row.unload.click()
    qtbot.waitUntil(lambda: context.model is None, timeout=SOON)
    again = section_of(open_window())
    assert [found.models.currentText() for found in again.rows.values()] == ["org/small"]
    (found,) = again.rows.values()
    found.remove.click()
    assert not again.rows
    assert not settings.value("remote/servers")


def test_what_only_a_canvas_allows_is_off_and_says_why(qtbot: QtBot, open_window: Open, server: Rude) -> None:
    window = open_window()
    load(qtbot, window, add(qtbot, window, server.endpoint))
    why = "This server only sends text, so there is no canvas."
    shown = [name for name, row in window.strip._rows.items() if not row.isHidden()]
    assert shown == ["sampling_temperature", "sampling_top_p", "max_new_tokens"]
    assert window.strip.random_seed.isEnabled()
    assert window.strip.refusal.text() == why
    assert "runs on another server" in window.pages["server"].widget.card.served.text()
    window.show_page(SUDOKU)
    column = window.pages["sudoku"].page.column
    assert (column.reason.text(), column.adapter.isEnabled()) == (why, False)
    assert not column.load.isHidden()
    assert column.adapter.toolTip() == "The server that runs this model chooses its adapter."


def test_a_key_is_asked_for_kept_and_forgotten(qtbot: QtBot, open_window: Open, vault: Working) -> None:
    with serving(v1_models=guarded(models("m"))) as server:
        window = open_window()
        row = add(qtbot, window, server.endpoint)
        assert row.status.text() == "✕ Wants a key"
        assert row.key_field.isVisibleTo(row)
        row.key_field.setText(KEY)
        row.save_key.click()
        qtbot.waitUntil(lambda: row.status.text().startswith("✓ Reachable"), timeout=SOON)
        assert list(vault.kept.values()) == [KEY]
        row.key.setChecked(True)
        row.forget_key.click()
        qtbot.waitUntil(lambda: row.status.text() == "✕ Wants a key", timeout=SOON)
        assert not vault.kept
        row.remove.click()
        row = add(qtbot, window, server.endpoint, KEY)
        assert row.status.text().startswith("✓ Reachable")
        load(qtbot, window, row)


def test_what_is_no_address_is_said(open_window: Open) -> None:
    section = section_of(open_window())
    for address in ("ftp://somewhere", "http://", "http://a b", "http://user:word@host"):
        section.notice.hide()
        section.address.setText(address)
        section.add_button.click()
        assert not section.notice.isHidden()
        assert section.notice.message.text()[0].isupper()
        assert (section.address.text(), len(section.rows)) == (address, 0)


def test_offline_only_this_machine_is_asked_and_other_models_are_let_go(
    qtbot: QtBot, open_window: Open, server: Rude, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    window.context.set_offline(True)
    near = add(qtbot, window, server.endpoint)
    assert near.status.text().startswith("✓ Reachable")
    far = add(qtbot, window, "http://elsewhere.invalid:8000")
    assert far.status.text() == "✕ Not reachable"
    assert "Offline is on" in far.detail.text()
    assert not far.test.isEnabled()
    load(qtbot, window, near)
    window.context.set_offline(False)
    assert far.test.isEnabled()
    assert window.context.model is not None
    monkeypatch.setattr("app.bridge.remote_access.is_loopback", lambda _host: False)
    window.context.set_offline(True)
    qtbot.waitUntil(lambda: window.context.model is None, timeout=SOON)
    assert "runs on another machine" in window.pages.chat().page.notice.message.text()
