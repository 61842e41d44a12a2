"""The window's tools: what is stored, what is offered, and what needs the user's leave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.tools.store import FILE, Leave, ToolStore
from app.tools.toolbox import Toolbox
from engine import SafelightError
from engine.tools.declared import ToolServer
from engine.tools.tool import Tool

PLAIN = Path(__file__).parents[2] / "engine" / "tools" / "plain_server.py"
SUMS = ToolServer("sums", sys.executable, ("-S", "-E", str(PLAIN)))
FAR = ToolServer("far", url="https://tools.example/mcp")
ADD = Tool("sums", "add", "add", is_read_only=True, identity=SUMS.identity)


def test_servers_and_leave_survive_a_restart(tmp_path: Path) -> None:
    store = ToolStore(tmp_path)
    assert (store.servers, store.leave, store.problem) == ((), Leave(), "")
    leave = Leave().granting(SUMS, "add", always=True).offering(SUMS, "fail", offers=False)
    store.write((SUMS, FAR), leave)
    again = ToolStore(tmp_path)
    assert (again.servers, again.leave, again.problem) == ((SUMS, FAR), leave, "")
    again.write(servers=(FAR,))
    assert ToolStore(tmp_path).leave == Leave()  # of a server that is no longer declared nothing is kept


def test_leave_is_of_what_is_run_and_not_of_a_name() -> None:
    leave = Leave().granting(SUMS, "add", always=True)
    assert leave.is_free(SUMS, ADD)
    assert not leave.is_free(ToolServer("sums", "/tmp/other"), ADD)
    assert not leave.granting(SUMS, "add", always=False).is_free(SUMS, ADD)
    assert not Leave().is_free(SUMS, ADD)
    assert Leave(reads=True).is_free(SUMS, ADD)
    assert not Leave(reads=True).is_free(SUMS, Tool("sums", "end", "end"))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": {"x": {}}}', '{"mcpServers": {"x": {"command": "y"}, "z": {"url": "ftp://a"}}}']
)
def test_a_file_with_a_fault_is_said_and_never_written_over(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    store = ToolStore(tmp_path)
    assert store.problem
    with pytest.raises(SafelightError):
        store.write((SUMS,))
    assert (tmp_path / FILE).read_text(encoding="utf-8") == text


def test_leave_that_is_not_understood_gives_none(tmp_path: Path) -> None:
    raw = {
        "mcpServers": {"far": {"url": FAR.url}},
        "leave": {"always": {FAR.identity: "all"}, "reads": "yes", "off": 3},
    }
    (tmp_path / FILE).write_text(json.dumps(raw), encoding="utf-8")
    store = ToolStore(tmp_path)
    assert (store.servers, store.leave) == ((FAR,), Leave())


def test_tools_are_offered_and_called_with_leave(qtbot: QtBot, tmp_path: Path) -> None:
    box = Toolbox(tmp_path, is_offline=True)
    try:
        with qtbot.waitSignal(box.changed):
            box.set_servers((SUMS, FAR))
        qtbot.waitUntil(lambda: box.states[0].status == "ready", timeout=20_000)
        assert box.states[1].problem == "Safelight is offline, and this server is on another machine"
        add = next(tool for tool in box.offered if tool.name == "add")
        assert box.needs_leave(add)
        box.grant(add)
        assert not box.needs_leave(add)
        assert box.call(add, {"first": 1, "second": 2}).result(10).text == "3"
        box.set_leave(box.leave.offering(SUMS, "add", offers=False))
        assert "add" not in {tool.name for tool in box.offered}
        with pytest.raises(SafelightError, match="not offered any more"):
            box.call(add, {}).result(1)
        with pytest.raises(SafelightError, match="one name"):
            box.set_servers((SUMS, SUMS))
        assert box.servers == (SUMS, FAR)
        box.set_servers(())
        assert box.offered == ()
    finally:
        box.close()


def test_a_window_takes_over_what_another_has_changed_before_it_changes_more(tmp_path: Path) -> None:
    ToolStore(tmp_path).write((SUMS,))
    first, second = ToolStore(tmp_path), ToolStore(tmp_path)
    first.write(servers=(SUMS, FAR))
    assert second.refresh()
    second.write(leave=second.leave.granting(FAR, "find", always=True))
    assert first.refresh()
    assert (first.servers, first.leave) == ((SUMS, FAR), second.leave)
    assert not first.refresh()


def test_leave_that_another_window_takes_back_counts_at_the_next_call(qtbot: QtBot, tmp_path: Path) -> None:
    off = ToolServer("sums", sys.executable, is_on=False)
    add = Tool("sums", "add", "add", identity=off.identity)
    ToolStore(tmp_path).write((off,), Leave().granting(off, "add", always=True))
    box = Toolbox(tmp_path)
    try:
        assert not box.needs_leave(add)
        ToolStore(tmp_path).write((off, FAR), Leave())
        with qtbot.waitSignal(box.changed):
            assert box.needs_leave(add)
        assert box.servers == (off, FAR)
    finally:
        box.close()


def test_a_file_that_is_damaged_while_the_window_is_open_stays(tmp_path: Path) -> None:
    store = ToolStore(tmp_path)
    store.write((SUMS,))
    whole = (tmp_path / FILE).read_text(encoding="utf-8")
    (tmp_path / FILE).write_text(whole[:-5], encoding="utf-8")
    with pytest.raises(SafelightError, match="Repair or move"):
        store.write((SUMS, FAR))
    (tmp_path / FILE).write_text(whole, encoding="utf-8")
    store.write((SUMS, FAR))
    (tmp_path / FILE).unlink()
    store.write((FAR, SUMS))
    assert ToolStore(tmp_path).servers == (FAR, SUMS)
