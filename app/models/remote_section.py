"""The models page's part on remote servers: a field to add one, and their rows. Knows no network."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QLineEdit, QWidget

from app.design.controls import button, chain_tabs, flow_of, label
from app.design.layouts import column_of
from app.design.notice import Notice
from app.models.remote_row import FIELD_WIDTH, RemoteRow, key_field
from app.models.words import about_servers
from app.system.i18n import tr

LONGEST_ADDRESS = 2048


class RemoteSection(QWidget):
    """Lists remote servers."""

    add_asked = Signal(str, str)  # an address and a key, which may be empty

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, RemoteRow] = {}
        self.address = QLineEdit()
        self.address.setMaxLength(LONGEST_ADDRESS)
        self.address.setMinimumWidth(FIELD_WIDTH)
        self.address.setPlaceholderText("http://127.0.0.1:8000")
        self.address.setAccessibleName(tr("Address of a server"))
        self.key = key_field(tr("Key of the server, if it asks for one"))
        self.key.setPlaceholderText(tr("Key, if it asks for one"))
        self.add_button = button(tr("Add and test"), role="plain", tip=tr("Asks the server which models it has"))
        self.notice = Notice()
        self._rows = column_of(spacing=8)
        self.setLayout(
            column_of(
                label(tr("Remote engines"), "group"),
                label(about_servers(), "fact", wrap=True),
                self._rows,
                self.notice,
                flow_of(self.address, self.key, self.add_button),
                margins=(0, 16, 0, 0),
                spacing=8,
            )
        )
        self.add_button.clicked.connect(self._add)
        self.address.returnPressed.connect(self._add)
        self.key.returnPressed.connect(self._add)
        self.address.textChanged.connect(self._typed)
        self._typed()

    def add_row(self, base: str, row: RemoteRow) -> None:
        self.rows[base] = row
        self._rows.addWidget(row)

    def remove_row(self, base: str) -> None:
        row = self.rows.pop(base)
        row.hide()
        row.deleteLater()

    def chain(self) -> None:
        """Sets the order of the Tab key."""
        rows = [widget for row in self.rows.values() for widget in row.tab_order()]
        chain_tabs(self, [*rows, self.address, self.key, self.add_button])

    def clear(self) -> None:
        """Empties the fields once a server is added."""
        self.address.clear()
        self.key.clear()

    @Slot()
    def _typed(self) -> None:
        self.add_button.setEnabled(bool(self.address.text().strip()))

    @Slot()
    def _add(self) -> None:
        self.notice.hide()
        address = self.address.text().strip()
        if address:
            self.add_asked.emit(address, self.key.text().strip())
