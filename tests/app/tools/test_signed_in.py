"""Signing in and out in the settings' section of tools, and where tokens are stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import keyring
import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot

from app.system.secret import SERVICE
from app.tools.panel import ToolsPanel
from app.tools.server_row import ToolServerRow
from app.tools.store import FILE, ToolStore
from app.tools.tokens import PIECE, KeyringTokens
from app.tools.toolbox import Toolbox
from engine.tools.declared import ToolServer
from tests.app.system.test_secret import Absent, Working
from tests.engine.tools.oauth_server import serving

SOON = 20_000  # milliseconds


@pytest.fixture(autouse=True)
def ring() -> Iterator[Working]:
    before, made = keyring.get_keyring(), Working()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The addresses that were opened; a browser follows each to its end."""
    visited, threads = list[str](), list[threading.Thread]()

    def visit(address: QUrl) -> bool:
        visited.append(address.toString(QUrl.ComponentFormattingOption.FullyEncoded))
        threads.append(threading.Thread(target=lambda: httpx.get(visited[-1], follow_redirects=True)))
        threads[-1].start()
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", visit)
    yield visited
    for thread in threads:
        thread.join(10)


def shown(qtbot: QtBot, panel: ToolsPanel, text: str) -> ToolServerRow:
    qtbot.waitUntil(lambda: "sums" in panel.rows and text in panel.rows["sums"].state.text(), timeout=SOON)
    return panel.rows["sums"]


def test_the_user_signs_in_and_out(qtbot: QtBot, tmp_path: Path, ring: Working, visits: list[str]) -> None:
    with serving() as (url, accounts):
        server = ToolServer("sums", url=url)
        with closing(Toolbox(tmp_path)) as box:
            panel = ToolsPanel(box, home=tmp_path)
            qtbot.addWidget(panel)
            panel.show()
            box.set_servers((server,))
            row = shown(qtbot, panel, "○ Needs a sign-in. Choose Sign in, and your browser opens.")
            assert (row.sign_in.isVisible(), row.cancel.isVisible(), row.sign_out.isVisible()) == (True, False, False)
            assert visits == []
            row.sign_in.click()
            shown(qtbot, panel, "● Ready · 1 tool · signed in")
            assert (row.sign_in.isVisible(), row.cancel.isVisible(), row.sign_out.isVisible()) == (False, False, True)
        stored = (tmp_path / FILE).read_text(encoding="utf-8")
        assert json.loads(stored)["signed_in"] == [server.identity]
        assert not any(token in stored for token in accounts.access)
        with closing(Toolbox(tmp_path)) as box:
            qtbot.waitUntil(lambda: box.states[0].status == "ready", timeout=SOON)
            assert len(visits) == 1
            box.sign_out("sums")
            qtbot.waitUntil(lambda: box.states[0].status == "sign-in", timeout=SOON)
            assert (box.place_of_tokens(server), ring.kept) == ("nowhere", {})
            qtbot.waitUntil(lambda: not ToolStore(tmp_path).signed_in, timeout=SOON)
            box.sign_in("sums")
            qtbot.waitUntil(lambda: bool(ToolStore(tmp_path).signed_in), timeout=SOON)
            box.set_servers(())  # nothing of a server that is gone is kept
            qtbot.waitUntil(lambda: not ring.kept, timeout=SOON)


def test_a_sign_in_is_cancelled_and_needs_a_browser(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = [True, False]
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _address: opens.pop(0))
    with serving() as (url, _), closing(Toolbox(tmp_path)) as box:
        panel = ToolsPanel(box, home=tmp_path)
        qtbot.addWidget(panel)
        panel.show()
        box.set_servers((ToolServer("sums", url=url),))
        row = shown(qtbot, panel, "Needs a sign-in")
        row.sign_in.setFocus()
        row.sign_in.click()
        shown(qtbot, panel, "○ Your browser is open. Sign in there.")
        qtbot.waitUntil(lambda: len(opens) == 1, timeout=SOON)
        assert (row.sign_in.isEnabled(), row.cancel.isVisible()) == (False, True)
        assert panel.window().focusWidget() is row.cancel
        row.cancel.click()
        shown(qtbot, panel, "Needs a sign-in")
        row.sign_in.click()
        qtbot.waitUntil(lambda: "No browser could be opened" in panel.notice.message.text(), timeout=SOON)
        shown(qtbot, panel, "Needs a sign-in")


def test_tokens_are_stored_in_pieces(ring: Working) -> None:
    changes = list[int]()
    tokens = KeyringTokens((), lambda: changes.append(1))
    long, short = "ä€🗝x" * PIECE, "short"
    tokens.write("one", long)
    tokens.write("two", short)
    assert (tokens.read("one"), tokens.read("two"), tokens.kept) == (long, short, {"one", "two"})
    assert max(len(kept) for kept in ring.kept.values()) <= PIECE + 3
    again = KeyringTokens(tokens.kept, lambda: None)
    assert again.read("one") == long
    again.write("one", short)
    assert (again.read("one"), len(ring.kept)) == (short, 2)
    again.write("one", "")
    assert (again.read("one"), again.place_of("one"), again.kept) == ("", "nowhere", {"two"})
    assert len(changes) == 2
    ring.kept[SERVICE, "tools two 0"] = "not ours"
    assert again.read("two") == ""


def test_without_a_keyring_tokens_last_for_the_session() -> None:
    keyring.set_keyring(Absent())
    tokens = KeyringTokens((), lambda: None)
    tokens.write("one", "text")
    assert (tokens.read("one"), tokens.place_of("one"), tokens.kept) == ("text", "session", frozenset())
