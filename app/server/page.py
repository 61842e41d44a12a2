"""The server page: the card with the switch, and below it the requests or the instructions for connecting."""

from __future__ import annotations

import functools

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QPushButton, QWidget

from app.design.column_page import ColumnPage
from app.design.controls import FlowLayout, button, label
from app.design.layouts import STRETCH, Gap, column_of, row_of
from app.design.notice import Notice
from app.server.access import AccessCard
from app.server.copying import CodeBox, CopyButton
from app.server.requests import RequestList
from app.server.snippets import Access, snippets
from app.system.i18n import tr


class ConnectPanel(QWidget):
    """Shows the text of one program at a time. The copied text contains the key; the shown text masks it if it is
    hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Connect a program"))
        self._snippets = snippets()
        self._place = 0
        self._access, self._shows_key = Access("", "", ""), False
        self.buttons: list[QPushButton] = []
        strip = QWidget()
        flow = FlowLayout(strip, gap=8)
        for place, snippet in enumerate(self._snippets):
            made = button(snippet.title, tr("Connect {program}", program=snippet.title), role="chip")
            made.setCheckable(True)  # not in a group: Tab would reach only one button of it
            made.clicked.connect(functools.partial(self._choose, place))
            flow.addWidget(made)
            self.buttons.append(made)
        self.hint = label("", "fact", wrap=True)
        self.code = CodeBox(tr("What to enter there"))
        self.copy = CopyButton(tr("Copy what to enter there"), self.text, role="plain")
        above = row_of((self.hint, 1), (self.copy, 0, Qt.AlignmentFlag.AlignBottom), spacing=16)
        self.setLayout(column_of(strip, above, self.code, spacing=8))
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
        for at, made in enumerate(self.buttons):
            made.setChecked(at == place)
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
        self.setObjectName("server")
        self.setAccessibleName(tr("Server"))
        self.card, self.requests, self.connect_panel = AccessCard(), RequestList(), ConnectPanel()
        self.notice = Notice()
        self.notice.float_over(self.viewport())
        self.requests_tab = self._tab(tr("Requests"), tr("Show the requests"))
        self.connect_tab = self._tab(tr("Connect a program"), tr("Show how to connect a program"))
        self.requests_tab.clicked.connect(self.show_requests)
        self.connect_tab.clicked.connect(self.show_connecting)
        self.requests.connect_button.clicked.connect(self.show_connecting)
        self._lay_out()
        self.show_requests()

    @staticmethod
    def _tab(text: str, name: str) -> QPushButton:
        made = button(text, name)
        made.setCheckable(True)  # not in a group: Tab would reach only one button of it
        return made

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
