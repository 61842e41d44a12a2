"""The settings' section of tools: servers are added, changed, switched, imported, and shown as plain text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLabel
from pytestqt.qtbot import QtBot

from app.tools.form import ServerFields, join_command, read_fields, split_command
from app.tools.form_dialog import ToolServerDialog
from app.tools.panel import ToolsPanel
from app.tools.pasted import read_pasted, text_of
from app.tools.server_row import ToolRow, ToolServerRow
from app.tools.store import FILE, Leave
from app.tools.text_dialog import ToolTextDialog
from app.tools.toolbox import Toolbox
from engine import SafelightError
from engine.tools.declared import ToolServer
from engine.tools.tool import Tool, ToolServerState

SOON = 20_000  # milliseconds
HOSTILE = Path(__file__).parents[2] / "engine" / "tools" / "hostile_server.py"
FAILS = "import sys; print('<b>no database</b>', file=sys.stderr); sys.exit(1)"
OFF = ToolServer("off", "npx", ("-y", "files"), is_on=False)
FAR = ToolServer("far", url="https://tools.example/mcp", headers=(("Authorization", "Bearer 123"),), is_on=False)
T = TypeVar("T", bound=QDialog)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    made = Toolbox(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def model() -> SimpleNamespace:
    return SimpleNamespace(title="Some", reads_tools=True)


@pytest.fixture
def panel(qtbot: QtBot, box: Toolbox, model: SimpleNamespace) -> ToolsPanel:
    made = ToolsPanel(box, lambda: model)
    qtbot.addWidget(made)
    made.show()
    return made


def opened(panel: ToolsPanel, kind: type[T]) -> T:
    return panel.findChildren(kind)[-1]


def running(tmp_path: Path) -> ToolServer:
    """A server with one tool, which writes the number of its process to a file."""
    code = (
        "import os, pathlib, runpy, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid()));"
        "path = sys.argv[2]; sys.argv = [path, 'plain']; runpy.run_path(path, run_name='__main__')"
    )
    return ToolServer("one", sys.executable, ("-c", code, str(tmp_path / "pid"), str(HOSTILE)))


def test_a_server_is_added_by_the_form(qtbot: QtBot, panel: ToolsPanel, box: Toolbox) -> None:
    assert "no server yet" in panel.sum.text()
    box.set_offline(True)  # so that nothing is asked
    panel.add.click()
    form = opened(panel, ToolServerDialog)
    assert not form.save.isEnabled()
    qtbot.keyClicks(form.name, "far")
    assert form.problem.text().startswith("Write the command")
    form.kind.setCurrentIndex(1)
    assert (form.command.isVisible(), form.url.isVisible()) == (False, True)
    qtbot.keyClicks(form.url, "ftp://x")
    assert form.problem.text() == "The url of 'far' is 'ftp://x'; write http://… or https://…"
    assert not form.save.isEnabled()
    form.url.setText("https://tools.example/mcp")
    form.headers.setPlainText("Authorization: Bearer 123")
    assert form.problem.text() == ""
    form.save.click()
    assert box.servers == (replace(FAR, is_on=True),)
    assert list(panel.rows) == ["far"]
    assert "123" not in panel.rows["far"].target.toolTip()
    assert "Authorization" in panel.rows["far"].target.toolTip()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (ServerFields(), "Give the server a name."),
        (ServerFields("taken", command="x"), "There is a server of this name already."),
        (ServerFields("a"), "Write the command"),
        (ServerFields("a", command="npx 'files"), "A quotation mark in the command line is not closed."),
        (ServerFields("a", command="x", env="A=1\n\nB"), "Line 3 of the variables needs a name, then =, then a value."),
        (ServerFields("a", command="x", env="A=1\nA=2"), "The variables name A twice."),
        (ServerFields("a" * 65, command="x"), "give it a name of 1 to 64 characters."),
        (ServerFields("a", True, url=""), "Write the address"),
        (ServerFields("a", True, url="http://x", headers="A B: 1"), "A header of 'a' has a sign"),
    ],
)
def test_what_is_wrong_with_a_form_is_one_sentence(fields: ServerFields, said: str) -> None:
    with pytest.raises(SafelightError) as found:
        read_fields(fields, ["taken"])
    assert said in str(found.value)


@pytest.mark.parametrize("is_windows", [False, True])
def test_a_command_line_is_split_as_it_was_joined(is_windows: bool) -> None:
    parts = ("C:\\Program Files\\x.exe", "", "a b", '{"a": "it\'s"}', "--x=1", "\\\\host\\share")
    assert split_command(join_command(parts, is_windows=is_windows), is_windows=is_windows) == parts
    assert split_command('npx "a b"', is_windows=is_windows) == ("npx", "a b")


def test_a_snippet_of_a_guide_is_pasted_into_the_text(panel: ToolsPanel, box: Toolbox) -> None:
    box.set_servers((OFF,))
    panel.refresh()
    panel.text.click()
    dialog = opened(panel, ToolTextDialog)
    assert dialog.state.text() == "Nothing is changed."
    dialog.text.appendPlainText('{"mcpServers": {"new": {"command": "uvx", "disabled": true}}')
    assert not dialog.save.isEnabled()
    assert "JSON" in dialog.state.text()
    dialog.text.appendPlainText("}")
    assert dialog.state.text() == "Adds new."
    dialog.save.click()
    assert box.servers == (OFF, ToolServer("new", "uvx", is_on=False))


def test_texts_are_read_as_guides_write_them() -> None:
    one = (ToolServer("a", "x"),)
    assert read_pasted('"a": {"command": "x"},') == one
    assert read_pasted('{"mcp": {"servers": {"a": {"command": "x"}}}}') == one
    assert read_pasted('{"mcpServers": {"a": {"command": "y"}}}\n{"servers": {"a": {"command": "x"}}}') == one
    assert read_pasted(" ") == ()
    odd = (ToolServer("a", "x", ("\u00a0\u2028", "ü")),)
    assert "\u00a0" not in text_of(odd)
    assert read_pasted(text_of(odd)) == odd
    for wrong in ("[" * 100_000, '{"a": {}}', "{}]", '{"a": {"command": "x"}} y', '{"mcpServers": 3}'):
        with pytest.raises(SafelightError):
            read_pasted(wrong)


def test_a_server_is_shown_switched_and_removed(
    qtbot: QtBot, panel: ToolsPanel, model: SimpleNamespace, box: Toolbox, tmp_path: Path
) -> None:
    box.set_servers((running(tmp_path),))
    qtbot.waitUntil(lambda: "one" in panel.rows and panel.rows["one"].state.text() == "● Ready · 1 tool", timeout=SOON)
    row, (tool,) = panel.rows["one"], box.offered
    qtbot.waitUntil(lambda: panel.sum.text() == "1 tool is offered.", timeout=SOON)
    model.reads_tools = False
    panel.refresh()
    assert panel.sum.text() == "1 tool is offered. Some, which is loaded, cannot use tools."

    assert not row.tools
    row.fold.click()
    shown = row.tools["one"]
    shown.free.click()
    assert not box.needs_leave(tool)
    shown.free.click()
    assert box.needs_leave(tool)
    shown.offer.click()
    assert box.offered == ()
    assert panel.sum.text().startswith("0 tools are offered.")

    process = int((tmp_path / "pid").read_text())
    row.switch.click()
    assert not box.servers[0].is_on
    qtbot.waitUntil(lambda: row.state.text() == "○ Off", timeout=SOON)
    qtbot.waitUntil(lambda: not psutil.pid_exists(process), timeout=SOON)
    row.remove.click()
    assert (box.servers, panel.rows) == ((), {})
    panel.notice.undo.click()
    assert [server.name for server in box.servers] == ["one"]
    assert not box.leave.is_offered(box.servers[0], "one")  # as it was


def test_a_server_that_fails_shows_what_it_wrote(qtbot: QtBot, panel: ToolsPanel, box: Toolbox) -> None:
    box.set_servers((ToolServer("fails", sys.executable, ("-c", FAILS)),))
    qtbot.waitUntil(lambda: "fails" in panel.rows and panel.rows["fails"].state.text().startswith("✕"), timeout=SOON)
    row = panel.rows["fails"]
    assert row.state.text() == "✕ Has ended: <b>no database</b>."
    assert row.state.textFormat() == Qt.TextFormat.PlainText
    assert not row.log.isVisible()
    row.wrote.click()
    assert row.log.isVisible()
    assert row.log.toPlainText() == "<b>no database</b>"


def test_what_a_server_says_is_plain_text(qtbot: QtBot) -> None:
    tool = Tool("x", "one", "one", "<b>Title</b>", "<img src=x>\u202e and\n\nmore " * 200, is_read_only=True)
    server = ToolServer("<b>name</b>\u202e&", "x", env=(("KEY", "secret"),))
    row, tool_row = ToolServerRow(server), ToolRow(tool)
    for made in (row, tool_row):
        qtbot.addWidget(made)
        made.resize(2000, 400)
        made.show()
    row.show_state(ToolServerState(server, "ready", (tool,)), Leave())
    row.fold.setChecked(True)
    labels = [*row.findChildren(QLabel), *tool_row.findChildren(QLabel)]
    assert {label.textFormat() for label in labels} == {Qt.TextFormat.PlainText}
    assert row.title.toolTip() == "<b>name</b>⟨U+202E⟩&"
    assert tool_row.about.text().startswith("<b>Title</b> · <img src=x>⟨U+202E⟩ and more")
    assert len(tool_row.about.toolTip()) < 1000
    assert "secret" not in row.target.toolTip()
    assert not tool_row.reads.isHidden()


def test_tools_that_only_read_are_called_by_one_switch(qtbot: QtBot, panel: ToolsPanel, box: Toolbox) -> None:
    assert not box.leave.reads
    panel.reads.click()
    assert box.leave.reads
    row = ToolRow(Tool("x", "one", "one", is_read_only=True))
    qtbot.addWidget(row)
    row.show_leave(is_offered=True, is_free=False, reads=True)
    assert (row.free.isChecked(), row.free.isEnabled()) == (True, False)
    row.show_leave(is_offered=True, is_free=False, reads=False)
    assert (row.free.isChecked(), row.free.isEnabled()) == (False, True)


def test_the_file_of_another_program_is_opened_below_the_text(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"servers": {"far": {"url": "https://tools.example/mcp"}}}', encoding="utf-8")
    chosen = ["", str(tmp_path / "none.json"), str(file)]
    dialog = ToolTextDialog((OFF,), ask=lambda _: chosen.pop(0))
    qtbot.addWidget(dialog)
    dialog.open_file.click()
    dialog.open_file.click()
    qtbot.waitUntil(lambda: "none.json" in dialog.state.text(), timeout=SOON)
    dialog.open_file.click()
    qtbot.waitUntil(lambda: dialog.state.text() == "Adds far.", timeout=SOON)
    assert dialog.made == (OFF, ToolServer("far", url="https://tools.example/mcp"))


def test_a_file_with_a_fault_is_said_with_its_path(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"mcpServers": {"x": {}}}', encoding="utf-8")
    box = Toolbox(tmp_path)
    panel = ToolsPanel(box)
    qtbot.addWidget(panel)
    panel.show()
    assert str(tmp_path / FILE) in panel.problem.text()
    assert not panel.add.isEnabled()
    panel.reads.click()
    assert panel.notice.isVisible()
    assert not panel.reads.isChecked()
    box.close()
