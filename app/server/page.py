"""The server page: the card with the switch, and below it the requests or the instructions for connecting."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QGridLayout, QLineEdit, QPushButton, QWidget

from app.bridge.server_link import ServerState, is_unfinished
from app.design.controls import FocusGroup, button, describe, discard, flow_of, introduce, label, restyle, show_line
from app.design.layouts import STRETCH, ColumnPage, Gap, boxed, column_of, row_of
from app.design.notice import Notice
from app.server import words
from app.server.copying import CodeBox, CopyButton
from app.server.snippets import Access, snippets
from app.settings.fields import flag_box, number_box
from app.settings.preferences import NUMBERS, SWITCHES, Preferences
from app.system.i18n import tr

if TYPE_CHECKING:
    from engine.server.live import LiveRequest

MAX_ROWS = 100  # rows; further requests are not listed until one is free
LEAST_FIELD = 180  # pixels


class RequestRow(QFrame):
    def __init__(self, request: LiveRequest) -> None:
        super().__init__()
        introduce(self, role="request")
        self.request = request
        self.state = label("", "request-state")
        self.title = label(words.endpoint_name(request.endpoint), "request-title")
        self.title.setToolTip(request.endpoint)
        self.time = label(words.clock(request), "fact")
        self.facts = label("", "fact", wrap=True)
        self.inspect = button(tr("Inspect"))
        self.stop = button(tr("Stop"))
        policy = self.stop.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # so that the title and facts line up with the other rows
        self.stop.setSizePolicy(policy)
        self._acts = FocusGroup(self.inspect, self.stop)
        head = row_of(self.title, (self.state, 1), self.time, spacing=12)
        said = column_of(head, self.facts, spacing=2)
        self.setLayout(
            row_of(
                (said, 1),
                (self.stop, 0, Qt.AlignmentFlag.AlignVCenter),
                (self.inspect, 0, Qt.AlignmentFlag.AlignVCenter),
                margins=(0, 8, 0, 8),
                spacing=16,
            )
        )
        self.show_request(request)

    def show_request(self, request: LiveRequest) -> None:
        self.request = request
        state, facts = words.request_state(request), words.request_facts(request)
        if (state, facts) != (self.state.text(), self.facts.text()):
            self.state.setText(state)
            self.facts.setText(facts)
            self.setAccessibleName(f"{self.title.text()}, {self.time.text()}, {state}, {facts}")
        which = f"{self.title.text()}, {self.time.text()}"
        with self._acts:
            self.stop.setVisible(is_unfinished(request))
            self.stop.setAccessibleName(tr("Stop: {request}", request=which))
            can = request.trace is not None and request.trace.header.canvas_length > 0
            self.inspect.setEnabled(can)
            self.inspect.setAccessibleName(tr("Inspect: {request}", request=which))
            why = tr("Shows how the answer was written") if can else self._uninspected()
            describe(self.inspect, why)

    def _uninspected(self) -> str:
        if self.request.trace is not None:
            return tr("The server that runs the model only sends text, so there is nothing to inspect")
        if is_unfinished(self.request):
            return tr("It waits for its turn")
        return tr("It ended before the model began to answer, so there is nothing to inspect")


class RequestList(QWidget):
    """Shows a row for each request; without requests, it shows how to send one."""

    inspect_asked = Signal(object)  # LiveRequest
    stop_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("Requests"))
        self.rows: dict[str, RequestRow] = {}
        self.lesson = label("", "fact", wrap=True)
        self.connect_button = button(tr("Connect a program"), role="plain")
        self.empty = boxed(column_of(self.lesson, self.connect_button, margins=(0, 8, 0, 8), spacing=12))
        self._column = column_of(self.empty, spacing=0)
        self.setLayout(self._column)
        self.teach(is_on=False)

    def teach(self, *, is_on: bool) -> None:
        """Shows how to send the first request."""
        begin = "" if is_on else tr("Switch the server on. ")
        self.lesson.setText(
            begin
            + tr(
                "Enter the address and the key in your program, or copy a command into a terminal. Each request "
                "is listed here while it is answered, and can be watched in the inspector."
            )
        )

    def show_requests(self, requests: Sequence[LiveRequest]) -> None:
        """Shows these requests, newest first."""
        shown = requests[:MAX_ROWS]
        for gone in self.rows.keys() - {request.id for request in shown}:
            row = self.rows.pop(gone)
            self._column.removeWidget(row)
            discard(row)
        for place, request in enumerate(shown):
            row = self.rows.get(request.id) or self._add(request)
            if self._column.indexOf(row) != place + 1:
                self._column.insertWidget(place + 1, row)
            if row.request != request or row.request.trace is not request.trace:
                row.show_request(request)
        self.empty.setVisible(not shown)

    def _add(self, request: LiveRequest) -> RequestRow:
        row = self.rows[request.id] = RequestRow(request)
        row.inspect.clicked.connect(lambda: self.inspect_asked.emit(row.request))
        row.stop.clicked.connect(lambda: self.stop_asked.emit(row.request))
        return row


class AccessCard(QFrame):
    """Emits the user's choices; the ``show_*`` methods display values without emitting."""

    chosen = Signal(str, object)  # the name of a preference, and its value

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Local server"), role="model")
        self._filling = False
        self._key = ""
        self.switch = flag_box(SWITCHES["server"])
        self.status = label("", "fact")
        self.served = label("", "fact", wrap=True)
        self.address = introduce(QLineEdit(readOnly=True), tr("Address"))
        self.copy_address = CopyButton(tr("Copy the address"), self.address.text)
        self.key = introduce(QLineEdit(readOnly=True, echoMode=QLineEdit.EchoMode.Password), tr("Key"))
        self.show_key = button(tr("Show"), tr("Show the key"), checkable=True)
        self.copy_key = CopyButton(tr("Copy the key"), lambda: self._key)
        self.new_key = button(tr("Make a new key"), tip=tr("The old key stops working, and running answers end"))
        self.key_note = label("", "fact", wrap=True)
        self.port = number_box(NUMBERS["server_port"])
        self.port.setGroupSeparatorShown(False)
        self.open = flag_box(SWITCHES["server_open"])
        self.reach = label("", "remark", wrap=True, name=tr("Who can reach the server"))
        self._lay_out()
        self.switch.toggled.connect(functools.partial(self._choose, "server"))
        self.port.valueChanged.connect(functools.partial(self._choose, "server_port"))
        self.open.toggled.connect(functools.partial(self._choose, "server_open"))
        self.show_key.toggled.connect(self._reveal)

    def _lay_out(self) -> None:
        head = row_of((self.switch, 1), self.status)
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(1, LEAST_FIELD)
        rows = (
            (tr("Address"), self.address, (self.copy_address,)),
            (tr("Key"), self.key, (self.copy_key, self.show_key)),
        )
        for row, (name, field, buttons) in enumerate(rows):
            grid.addWidget(label(name, "fact"), row, 0)
            grid.addWidget(field, row, 1)
            for place, control in enumerate(buttons):
                grid.addWidget(control, row, 2 + place)
        note = row_of((self.key_note, 1), (self.new_key, 0, Qt.AlignmentFlag.AlignTop), spacing=16)
        grid.addLayout(note, 2, 1, 1, 3)
        port = row_of(self.port, self.open, STRETCH, spacing=24)
        grid.addWidget(label(tr(NUMBERS["server_port"].label), "fact"), 3, 0)
        grid.addLayout(port, 3, 1, 1, 3)
        grid.addWidget(self.reach, 4, 1, 1, 3)
        self.setLayout(column_of(head, self.served, Gap(8), grid, margins=(20, 16, 20, 16), spacing=4))

    def show_preferences(self, preferences: Preferences) -> None:
        self._filling = True
        self.switch.setChecked(preferences.server)
        self.port.setValue(preferences.server_port)
        self.open.setChecked(preferences.server_open)
        self.open.setEnabled(not preferences.offline)
        self._filling = False
        is_open = preferences.server_open and not preferences.offline
        text = words.reach_line(is_open=is_open, offline=preferences.offline)
        show_line(self.reach, text)

    def show_state(self, state: ServerState) -> None:
        self._key = state.key
        self.status.setText(words.state_line(state))
        self.setAccessibleDescription(words.state_line(state))
        for field, text in ((self.address, state.url), (self.key, state.key)):
            field.setText(text)
            field.setCursorPosition(0)
            field.setPlaceholderText(tr("Shown once the server is on"))
        for control in (self.copy_key, self.show_key):
            control.setEnabled(bool(state.key))
        self.copy_address.setEnabled(bool(state.url))
        self.key_note.setText(words.key_line(state))
        is_on = state.phase == "on"
        if self.property("loaded") != is_on:
            restyle(self, "loaded", is_on)

    def _choose(self, name: str, value: object) -> None:
        if not self._filling:
            self.chosen.emit(name, value)

    @Slot(bool)
    def _reveal(self, is_shown: bool) -> None:
        self.key.setEchoMode(QLineEdit.EchoMode.Normal if is_shown else QLineEdit.EchoMode.Password)
        self.show_key.setText(tr("Hide") if is_shown else tr("Show"))
        self.show_key.setAccessibleName(tr("Hide the key") if is_shown else tr("Show the key"))


class ConnectPanel(QWidget):
    """Shows the text of one program at a time. The copied text contains the key; the shown text masks it if it is
    hidden."""

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("Connect a program"))
        self._snippets = snippets()
        self._place = 0
        self._access, self._shows_key = Access("", "", ""), False
        self.buttons: list[QPushButton] = []
        for place, snippet in enumerate(self._snippets):  # not in a group: Tab would reach only one button of it
            name, act = tr("Connect {program}", program=snippet.title), functools.partial(self._choose, place)
            self.buttons.append(button(snippet.title, name, role="chip", checkable=True, clicked=act))
        self.hint = label("", "fact", wrap=True)
        self.code = CodeBox(tr("What to enter there"))
        self.copy = CopyButton(tr("Copy what to enter there"), self.text, role="plain")
        above = row_of((self.hint, 1), (self.copy, 0, Qt.AlignmentFlag.AlignBottom), spacing=16)
        self.setLayout(column_of(flow_of(*self.buttons), above, self.code, spacing=8))
        self._choose(0)

    def text(self) -> str:
        """Returns the text to copy, with the key."""
        return self._snippets[self._place].text(self._access)

    def show_access(self, access: Access, *, shows_key: bool) -> None:
        """Shows the texts with this address, key and model."""
        self._access, self._shows_key = access, shows_key
        self._show()

    def _choose(self, place: int, _checked: bool = False) -> None:
        self._place = place
        for at, control in enumerate(self.buttons):
            control.setChecked(at == place)
        self._show()

    @Slot()
    def _show(self) -> None:
        snippet = self._snippets[self._place]
        self.hint.setText(snippet.hint)
        self.code.show_code(snippet.text(self._access if self._shows_key else self._access.masked))


class ServerPage(ColumnPage):
    """Lays out the parts of the page; the controller gives them their content."""

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Server"), id="server")
        self.card, self.requests, self.connect_panel = AccessCard(), RequestList(), ConnectPanel()
        self.notice = Notice()
        self.notice.float_over(self.viewport())
        # not in a group: Tab would reach only one button of it
        self.requests_tab = button(tr("Requests"), tr("Show the requests"), checkable=True, clicked=self.show_requests)
        said = tr("Show how to connect a program")
        self.connect_tab = button(tr("Connect a program"), said, checkable=True, clicked=self.show_connecting)
        self.requests.connect_button.clicked.connect(self.show_connecting)
        self._lay_out()
        self.show_requests()

    def _lay_out(self) -> None:
        purpose = tr("Other programs can use the loaded model through the APIs of OpenAI, Anthropic and Ollama.")
        head = (label(tr("Server"), "title"), label(purpose, "fact", wrap=True), Gap(8), self.card, Gap(16))
        tabs = row_of(self.requests_tab, self.connect_tab, STRETCH, spacing=24)
        self.show_column(*head, tabs, self.requests, self.connect_panel)

    @Slot()
    def show_requests(self) -> None:
        """Shows the requests below the card."""
        self._show(is_connecting=False)

    @Slot()
    def show_connecting(self) -> None:
        """Shows the instructions for connecting below the card."""
        self._show(is_connecting=True)

    def _show(self, *, is_connecting: bool) -> None:
        self.requests_tab.setChecked(not is_connecting)
        self.connect_tab.setChecked(is_connecting)
        self.requests.setVisible(not is_connecting)
        self.connect_panel.setVisible(is_connecting)
