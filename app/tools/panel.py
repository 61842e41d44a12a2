"""The section of the settings that lists the tool servers, and adds, changes, switches and removes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QCheckBox, QDialog, QWidget

from app.design.controls import button, chain_tabs, discard, flow_of, focus_in_view, introduce, label, show_line
from app.design.layouts import column_of
from app.design.notice import Notice
from app.design.text_field import fits
from app.system.i18n import tr
from app.system.timers import later
from app.tools.form import fits_form
from app.tools.form_dialog import ToolServerDialog
from app.tools.pasted import text_of
from app.tools.server_row import ToolServerRow
from app.tools.store import Leave
from app.tools.text_dialog import ToolTextDialog
from app.tools.toolbox import Toolbox
from app.tools.words import plain, sentence, sum_text
from engine import SafelightError
from engine.service import LoadedModel
from engine.tools.declared import EXAMPLES, ToolServer

REFRESH_MS = 30  # servers may report many changes at once


class ToolsPanel(QWidget):
    """Shows the servers of ``toolbox`` as they are, and changes them at once.

    Args:
        model: returns the loaded model, which may not use tools.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        model: Callable[[], LoadedModel | None] = lambda: None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        introduce(self, tr("Tools"), id="tools")
        self._toolbox, self._model = toolbox, model
        self.rows: dict[str, ToolServerRow] = {}
        self._soon = later(self, self.refresh, REFRESH_MS)
        self._make_controls()
        self.setFocusProxy(self.reads)
        self._lay_out()
        toolbox.changed.connect(self._change)
        self.refresh()

    def _make_controls(self) -> None:
        trust = tr("The server itself says which of its tools only read. Safelight cannot check that.")
        self.reads = introduce(QCheckBox(tr("Call tools that only read without a question")), description=trust)
        self.reads.clicked.connect(self._set_reads)
        self.trust = label(trust, "caption", wrap=True)
        self.problem = label("", "error", wrap=True, selectable=True, name=tr("What is wrong with the file of tools"))
        far = tr(
            "Offline is on: servers on other machines are off. Programs on this computer run, and may use the network."
        )
        self.offline = label(far, "caption", wrap=True)
        self.sum = label("", "caption", wrap=True)
        self.notice = Notice()
        self.add = button(tr("Add…"), tr("Add a tool server"), role="plain", clicked=self._add)
        name = tr("Edit the tool servers as text")
        self.text = button(tr("Edit as text…"), name, role="plain", clicked=self._edit_text)
        said = tr("Add the calculator, clock, word counter and table that come with Safelight")
        self.examples = button(tr("Add the example tools"), said, role="plain", clicked=self._add_examples)
        self._acts = self.add, self.text, self.examples
        for control in self._acts:
            control.setAutoDefault(False)

    def _lay_out(self) -> None:
        self._rows = column_of(spacing=8)
        acts = flow_of(*self._acts)
        reads = column_of(self.reads, self.trust, spacing=4)
        listed = column_of(self.sum, self._rows, self.notice, acts, spacing=12)
        about = tr(
            "A tool server (MCP) gives a model things to do: read files, search, ask a database. It is a program that "
            "runs on this computer with your rights, or an address. Add only servers you trust. Safelight asks before "
            "each call."
        )
        parts = (label(about, "setting", wrap=True), self.problem, reads, self.offline, listed)
        self.setLayout(column_of(*parts, spacing=16))

    @Slot()
    def _change(self) -> None:
        if not self._soon.isActive():  # not postponed by each of many changes
            self._soon.start()

    @Slot()
    def refresh(self) -> None:
        """Shows the present servers, their states and the user's leave."""
        box = self._toolbox
        states = {state.server.name: state for state in box.states}
        has_moved = self._make_rows(box.servers)
        for name, row in self.rows.items():
            row.show_state(states[name], box.leave)
        self.reads.setChecked(box.leave.reads)
        self._show_problem()
        self.examples.setVisible(all(server.command != EXAMPLES for server in box.servers))
        self.offline.setVisible(box.is_offline and any(server.is_remote for server in box.servers))
        model = self._model()
        unable = model.title if model is not None and not model.reads_tools else ""
        self.sum.setText(sum_text(len(box.servers), len(box.offered), unable))
        if has_moved:
            self._chain()

    def _make_rows(self, servers: tuple[ToolServer, ...]) -> bool:
        """Makes the rows of new servers and removes those of former ones; returns True if any has moved."""
        names = [server.name for server in servers]
        if names == list(self.rows):
            return False
        for name in self.rows.keys() - set(names):
            row = self.rows.pop(name)
            self._rows.removeWidget(row)
            discard(row)
        rows: dict[str, ToolServerRow] = {}
        for place, server in enumerate(servers):
            rows[server.name] = row = self.rows.get(server.name) or self._row(server)
            if self._rows.indexOf(row) != place:
                self._rows.insertWidget(place, row)
                row.show()  # Qt would show it later, and until then it takes no focus
        self.rows = rows
        return True

    def _row(self, server: ToolServer) -> ToolServerRow:
        row, name = ToolServerRow(server), server.name
        row.switched.connect(functools.partial(self._switch, name))
        row.restart_asked.connect(functools.partial(self._toolbox.restart, name))
        row.edit_asked.connect(functools.partial(self._edit, name))
        row.remove_asked.connect(functools.partial(self._remove, name))
        row.offered.connect(functools.partial(self._offer, name))
        row.granted.connect(functools.partial(self._grant, name))
        row.fold.toggled.connect(self._chain)
        return row

    @Slot()
    def _chain(self) -> None:
        """Sets the order of the Tab key."""
        rows = [widget for row in self.rows.values() for widget in row.tab_order()]
        message = (self.notice.message, self.notice.undo, self.notice.details, self.notice.dismiss)
        chain_tabs(self.reads, [*rows, *message, *self._acts])

    def _show_problem(self) -> None:
        problem, path = sentence(self._toolbox.store.problem), str(self._toolbox.store.path)
        if problem and path not in problem:
            problem = tr("{problem} The file: {path}", problem=problem, path=path)
        show_line(self.problem, problem)
        for control in self._acts:
            control.setEnabled(not problem)

    def _server(self, name: str) -> ToolServer | None:
        """Returns the server as it is declared now."""
        self._toolbox.refresh()
        return next((server for server in self._toolbox.servers if server.name == name), None)

    def _store(self, servers: tuple[ToolServer, ...]) -> bool:
        """Declares other servers, or shows why they cannot be stored."""
        try:
            self._toolbox.set_servers(servers)
        except SafelightError as error:
            self.notice.show_message(tr(str(error)))
            self.refresh()
            return False
        self.notice.hide()
        self.refresh()
        return True

    def _replace(self, name: str, changed: ToolServer) -> bool:
        return self._store(tuple(changed if one.name == name else one for one in self._toolbox.servers))

    def _set_leave(self, leave: Leave) -> None:
        try:
            self._toolbox.set_leave(leave)
        except SafelightError as error:
            self.notice.show_message(tr(str(error)))
        self.refresh()

    @Slot(bool)
    def _set_reads(self, is_on: bool) -> None:
        self._toolbox.refresh()
        self._set_leave(replace(self._toolbox.leave, reads=is_on))

    def _switch(self, name: str, is_on: bool) -> None:
        if server := self._server(name):
            self._replace(name, replace(server, is_on=is_on))

    def _offer(self, name: str, tool: str, offers: bool) -> None:
        if server := self._server(name):
            self._set_leave(self._toolbox.leave.offering(server, tool, offers=offers))

    def _grant(self, name: str, tool: str, always: bool) -> None:
        if server := self._server(name):
            self._set_leave(self._toolbox.leave.granting(server, tool, always=always))

    def _remove(self, name: str) -> None:
        self._toolbox.refresh()
        servers = self._toolbox.servers
        if self._store(tuple(server for server in servers if server.name != name)):
            said = tr("{name} is removed.", name=plain(name))
            self.notice.show_undo(said, functools.partial(self._put_back, name, servers))
            focus_in_view(self.notice.undo)

    def _put_back(self, name: str, servers: tuple[ToolServer, ...]) -> None:
        """Declares a removed server again, at its place."""
        place, gone = next((place, one) for place, one in enumerate(servers) if one.name == name)
        now = list(self._toolbox.servers)
        now.insert(place, gone)
        if self._store(tuple(now)):
            focus_in_view(self.rows[name].switch)

    @Slot()
    def _add(self) -> None:
        dialog = ToolServerDialog([server.name for server in self._toolbox.servers], parent=self.window())
        self._open(dialog, lambda: self._take_added(dialog.made))

    def _take_added(self, server: ToolServer | None) -> None:
        self._toolbox.refresh()
        if server is not None and self._store((*self._toolbox.servers, server)):
            focus_in_view(self.rows[server.name].switch)

    @Slot()
    def _add_examples(self) -> None:
        names, number, name = {server.name for server in self._toolbox.servers}, 1, tr("Example tools")
        while name in names:
            number, name = number + 1, f"{tr('Example tools')} {number + 1}"
        self._take_added(ToolServer(name, EXAMPLES))

    def _edit(self, name: str) -> None:
        server = self._server(name)
        if server is None:
            return
        if not fits_form(server):
            self.notice.show_message(
                tr("{name} has a text that the form cannot show. Choose Edit as text.", name=plain(name))
            )
            return
        others = [one.name for one in self._toolbox.servers if one.name != name]
        dialog = ToolServerDialog(others, server, self.window())
        self._open(dialog, lambda: self._take_edited(name, dialog.made))

    def _take_edited(self, name: str, server: ToolServer | None) -> None:
        if server is not None and self._replace(name, server):
            focus_in_view(self.rows[server.name].edit)

    @Slot()
    def _edit_text(self) -> None:
        self._toolbox.refresh()
        servers = self._toolbox.servers
        if not fits(text_of(servers)):
            said = tr(
                "The servers are too long to edit here. Close Safelight and change {path}.",
                path=str(self._toolbox.store.path),
            )
            self.notice.show_message(said)
            return
        dialog = ToolTextDialog(servers, self.window())
        self._open(dialog, lambda: self._store(dialog.made) if dialog.made is not None else None)

    @staticmethod
    def _open(dialog: QDialog, take: Callable[[], object]) -> None:
        dialog.accepted.connect(take)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
