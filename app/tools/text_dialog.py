"""The editor of all tool servers as text, in the notation of other programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDir, Slot
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from app.bridge.background import Background
from app.design.controls import button, introduce, label, restyle
from app.design.fonts import TEXT_BODY, canvas_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import TextField, refusal
from app.system.i18n import tr
from app.tools.pasted import read_pasted, text_of
from app.tools.words import plain, sentence
from engine import SafelightError
from engine.files import read_text
from engine.tools.declared import MAX_DECLARATION_BYTES, ToolServer

Ask = Callable[[QWidget], str]
"""Asks for a file; returns an empty string if none was chosen."""
DIALOG_WIDTH, DIALOG_HEIGHT = 640, 520  # pixels at 100 %


def ask_file(parent: QWidget) -> str:
    kinds = tr("JSON files") + " (*.json)"
    return QFileDialog.getOpenFileName(parent, tr("Open a file of tool servers"), QDir.homePath(), kinds)[0]


class ToolTextDialog(QDialog):
    """Edits the servers as text; ``made`` is what the text declares, None while it is wrong."""

    def __init__(self, servers: tuple[ToolServer, ...], parent: QWidget | None = None, *, ask: Ask = ask_file) -> None:
        title = tr("Tool servers as text")
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        self.made: tuple[ToolServer, ...] | None = servers
        self._servers, self._ask = servers, ask
        self._read = Background(self, self._add, self._refuse)
        self.text = introduce(TextField(), tr("The servers as JSON"))
        self.text.setFont(canvas_font(TEXT_BODY))
        self.text.setTabChangesFocus(True)
        self.text.setPlaceholderText('{"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"]}}}')
        self.state = label("", "caption", wrap=True, name=tr("What the text declares"))
        self.cancel = button(tr("Cancel"), role="plain", clicked=self.reject)
        self.save = button(tr("Save"), role="primary", clicked=self.accept)
        self.open_file = button(tr("Open a file…"), role="plain", clicked=self._open)
        for control in (self.open_file, self.cancel):
            control.setAutoDefault(False)
        hint = tr(
            "This is the notation of Claude Desktop and Cursor. Paste what a server's guide shows, or open another "
            "program's file, below the text or in its place. Saving starts the programs that are new. Keys are kept in "
            "a file that only you can read."
        )
        bottom = row_of(self.open_file, STRETCH, self.cancel, self.save, spacing=8)
        parts = (label(title, "title", wrap=True), label(hint, "caption", wrap=True))
        self.setLayout(
            column_of(*parts, (self.text, 1), self.state, bottom, margins=(24, 24, 24, 24), spacing=12)
        )  # fmt: skip
        room = self.screen().availableSize()
        self.resize(min(px(DIALOG_WIDTH), room.width() - 32), min(px(DIALOG_HEIGHT), room.height() - 64))
        if servers:
            self.text.setPlainText(text_of(servers))
            self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.textChanged.connect(self.check)
        self.text.overlong.connect(lambda _text: self._refuse(refusal()))
        self.check()
        self.text.setFocus()

    @Slot()
    def check(self) -> None:
        """Shows what is wrong with the text, or what saving it would change."""
        try:
            self.made = read_pasted(self.text.raw())
        except SafelightError as error:
            self.made = None
            self._refuse(str(error))
        else:
            self._say(changes(self._servers, self.made))
        self.save.setEnabled(self.made is not None)

    @Slot()
    def _open(self) -> None:
        if path := self._ask(self):
            self._read.ask(functools.partial(read_text, Path(path), MAX_DECLARATION_BYTES))

    @Slot(object)
    def _add(self, text: str) -> None:
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.insertPlainText(f"\n{text}" if self.text.raw().strip() else text)

    @Slot(str)
    def _refuse(self, reason: str) -> None:
        self._say(sentence(reason), is_error=True)

    def _say(self, text: str, *, is_error: bool = False) -> None:
        restyle(self.state, "role", "error" if is_error else "caption")
        self.state.setText(text)

    @Slot()
    def accept(self) -> None:
        if self.made is not None:
            super().accept()


def changes(before: tuple[ToolServer, ...], after: tuple[ToolServer, ...]) -> str:
    """Returns what is different, by the names of the servers."""
    old, new = ({server.name: server for server in servers} for servers in (before, after))
    kinds = (
        (tr("Adds {names}."), [name for name in new if name not in old]),
        (tr("Changes {names}."), [name for name in new if name in old and old[name] != new[name]]),
        (tr("Removes {names}."), [name for name in old if name not in new]),
    )
    said = [text.replace("{names}", plain(", ".join(names), 120)) for text, names in kinds if names]
    return " ".join(said) or tr("Nothing is changed.")
