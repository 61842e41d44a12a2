"""The card with the server's switch, address, key and port, and the machines that can reach it. Knows no server."""

from __future__ import annotations

import functools

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QGridLayout, QLineEdit

from app.bridge.server_link import ServerState
from app.design.controls import button, label, restyle
from app.design.layouts import STRETCH, Gap, column_of, row_of
from app.server import words
from app.server.copying import CopyButton
from app.settings.fields import flag_box, number_box
from app.settings.preferences import NUMBERS, SWITCHES, Preferences
from app.system.i18n import tr

LEAST_FIELD = 180  # pixels


class AccessCard(QFrame):
    """Emits the user's choices; the ``show_*`` methods display values without emitting."""

    chosen = Signal(str, object)  # the name of a preference, and its value

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "model")
        self.setAccessibleName(tr("Local server"))
        self._filling = False
        self._key = ""
        self.switch = flag_box(SWITCHES["server"])
        self.status = label("", "fact")
        self.served = label("", "fact", wrap=True)
        self.address = self._field(tr("Address"))
        self.copy_address = CopyButton(tr("Copy the address"), self.address.text)
        self.key = self._field(tr("Key"))
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.show_key = button(tr("Show"), tr("Show the key"))
        self.show_key.setCheckable(True)
        self.copy_key = CopyButton(tr("Copy the key"), lambda: self._key)
        self.new_key = button(tr("Make a new key"), tip=tr("The old key stops working, and running answers end"))
        self.key_note = label("", "fact", wrap=True)
        self.port = number_box(NUMBERS["server_port"])
        self.port.setGroupSeparatorShown(False)
        self.open = flag_box(SWITCHES["server_open"])
        self.reach = label("", "remark", wrap=True)
        self.reach.setAccessibleName(tr("Who can reach the server"))
        self._lay_out()
        self.switch.toggled.connect(functools.partial(self._choose, "server"))
        self.port.valueChanged.connect(functools.partial(self._choose, "server_port"))
        self.open.toggled.connect(functools.partial(self._choose, "server_open"))
        self.show_key.toggled.connect(self._reveal)

    @staticmethod
    def _field(name: str) -> QLineEdit:
        made = QLineEdit()
        made.setReadOnly(True)
        made.setAccessibleName(name)
        made.setMinimumWidth(LEAST_FIELD)
        return made

    def _lay_out(self) -> None:
        head = row_of((self.switch, 1), self.status)
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        rows = (
            (tr("Address"), self.address, (self.copy_address,)),
            (tr("Key"), self.key, (self.copy_key, self.show_key)),
        )
        for row, (name, field, buttons) in enumerate(rows):
            grid.addWidget(label(name, "fact"), row, 0)
            grid.addWidget(field, row, 1)
            for place, made in enumerate(buttons):
                grid.addWidget(made, row, 2 + place)
        note = row_of((self.key_note, 1), (self.new_key, 0, Qt.AlignmentFlag.AlignTop), spacing=16)
        grid.addLayout(note, 2, 1, 1, 3)
        port = row_of(self.port, self.open, STRETCH, spacing=24)
        grid.addWidget(label(tr(NUMBERS["server_port"].label), "fact"), 3, 0)
        grid.addLayout(port, 3, 1, 1, 3)
        grid.addWidget(self.reach, 4, 1, 1, 3)
        self.setLayout(column_of(head, self.served, Gap(8), grid, margins=(20, 16, 20, 16), spacing=4))

    def show_preferences(self, preferences: Preferences) -> None:
        """Shows the chosen preferences."""
        self._filling = True
        self.switch.setChecked(preferences.server)
        self.port.setValue(preferences.server_port)
        self.open.setChecked(preferences.server_open)
        self.open.setEnabled(not preferences.offline)
        self._filling = False
        is_open = preferences.server_open and not preferences.offline
        text = words.reach_line(is_open=is_open, offline=preferences.offline)
        self.reach.setText(text)
        self.reach.setVisible(bool(text))

    def show_state(self, state: ServerState) -> None:
        """Shows the server's state."""
        self._key = state.key
        self.status.setText(words.state_line(state))
        self.setAccessibleDescription(words.state_line(state))
        self.address.setText(state.url)
        self.address.setCursorPosition(0)
        self.address.setPlaceholderText(tr("Shown once the server is on"))
        self.key.setText(state.key)
        self.key.setCursorPosition(0)
        self.key.setPlaceholderText(tr("Shown once the server is on"))
        for made in (self.copy_key, self.show_key):
            made.setEnabled(bool(state.key))
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
