"""The server page: the card with the switch, and below it the requests or the instructions for connecting."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QPushButton

from app.design.column_page import ColumnPage
from app.design.controls import button, label
from app.design.layouts import STRETCH, row_of
from app.design.notice import Notice
from app.server.access import AccessCard
from app.server.connect import ConnectPanel
from app.server.requests import RequestList
from app.system.i18n import tr


class ServerPage(ColumnPage):
    """Lays out the parts of the page; the controller gives them their content."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("server")
        self.setAccessibleName(tr("Server"))
        self.card, self.requests, self.connect_panel = AccessCard(), RequestList(), ConnectPanel()
        self.notice = Notice()
        self.notice.float_over(self.viewport())
        self.requests_tab = self._tab(tr("Requests"), tr("Show the requests"))
        self.connect_tab = self._tab(tr("Connect a program"), tr("Show how to connect a program"))
        self.requests_tab.clicked.connect(self.show_requests)
        self.connect_tab.clicked.connect(self.show_connecting)
        self.requests.connect_asked.connect(self.show_connecting)
        self._lay_out()
        self.show_requests()

    @staticmethod
    def _tab(text: str, name: str) -> QPushButton:
        made = button(text, name)
        made.setCheckable(True)  # not in a group: Tab would reach only one button of it
        return made

    def _lay_out(self) -> None:
        tabs = row_of(self.requests_tab, self.connect_tab, STRETCH, spacing=24)
        column = self.column
        column.addWidget(label(tr("Server"), "title"))
        purpose = tr("Other programs can use the loaded model through an address, as they would use OpenAI's.")
        column.addWidget(label(purpose, "fact", wrap=True))
        column.addSpacing(8)
        column.addWidget(self.card)
        column.addSpacing(16)
        column.addLayout(tabs)
        column.addWidget(self.requests)
        column.addWidget(self.connect_panel)
        column.addStretch(1)
        self.show_column()

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
