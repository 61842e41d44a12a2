"""Instructions for connecting other programs: a text to copy for each."""

from __future__ import annotations

import functools

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QPushButton, QWidget

from app.design.controls import FlowLayout, button, label
from app.design.layouts import column_of, row_of
from app.server.copying import CodeBox, CopyButton
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
