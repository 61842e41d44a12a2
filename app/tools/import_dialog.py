"""The dialog that takes servers from the files of other programs. Nothing that it takes is started."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QDir, Slot
from PySide6.QtWidgets import QCheckBox, QDialog, QFileDialog, QVBoxLayout, QWidget

from app.bridge.background import Background
from app.design.controls import Elided, button, label, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, Gap, boxed, column_of, row_of
from app.system.i18n import tr, trn
from app.tools.found import FoundFile, find_all, read_files
from app.tools.words import plain, sentence, target_tip
from engine.tools.declared import ToolServer

WIDTH, HEIGHT = 600, 480  # pixels at 100 %
MOST_FILES = 16
INDENT = 26  # pixels: below the words of a check box

Ask = Callable[[QWidget], str]
"""Asks for a file; returns an empty string if none was chosen."""


def ask_file(parent: QWidget) -> str:
    kinds = tr("JSON files") + " (*.json)"
    return QFileDialog.getOpenFileName(parent, tr("Choose a file with tool servers"), QDir.homePath(), kinds)[0]


class ToolImportDialog(QDialog):
    """Lists what other programs declare; ``chosen`` is what was checked, all of it off."""

    def __init__(
        self,
        present: tuple[ToolServer, ...],
        parent: QWidget | None = None,
        *,
        home: Path | None = None,
        ask: Ask = ask_file,
    ) -> None:
        """
        Args:
            present: the servers that are declared already.
            home: the folder of the user; None is their own.
        """
        super().__init__(parent)
        self.setWindowTitle(tr("Import tool servers"))
        self.setAccessibleName(tr("Import tool servers"))
        self._present, self._ask = present, ask
        self._known = {server.identity for server in present}
        self._paths: set[Path] = set()
        self.boxes: list[tuple[QCheckBox, ToolServer]] = []
        self.state = label(tr("Looking for the files of other programs…"), "caption", wrap=True)
        self.file = button(tr("Choose a file…"), role="plain", clicked=self._choose_file)
        self.cancel = button(tr("Cancel"), role="plain", clicked=self.reject)
        self.take = button("", role="primary", clicked=self.accept)
        for made in (self.file, self.cancel):
            made.setAutoDefault(False)
        self._lay_out()
        self._look = Background(self, self._show_found, self._fail)
        self._read = Background(self, self._show_chosen, self._fail)
        self._count()
        self._look.ask(functools.partial(find_all, home))

    def _lay_out(self) -> None:
        hint = tr(
            "What you import is off until you switch it on: a file of another program starts nothing by itself. Read "
            "each command before you do."
        )
        self._files = column_of(spacing=16)
        listed = scroller(boxed(column_of(self._files, self.state, STRETCH, spacing=16)))
        listed.setAccessibleName(tr("Servers of other programs"))
        bottom = row_of(self.file, STRETCH, self.cancel, self.take, spacing=8)
        parts = (label(tr("Import tool servers"), "title", wrap=True), label(hint, "caption", wrap=True))
        self.setLayout(column_of(*parts, (listed, 1), bottom, margins=(24, 24, 24, 24), spacing=12))
        room = self.screen().availableSize()
        self.resize(min(px(WIDTH), room.width() - 32), min(px(HEIGHT), room.height() - 64))

    @property
    def chosen(self) -> tuple[ToolServer, ...]:
        """The servers to add, each by a name of its own, and off."""
        taken, found = {server.name for server in self._present}, list[ToolServer]()
        for box, server in self.boxes:
            if box.isChecked():
                name = free_name(server.name, taken)
                taken.add(name)
                found.append(replace(server, name=name, is_on=False))
        return tuple(found)

    @Slot(object)
    def _show_found(self, files: tuple[FoundFile, ...]) -> None:
        for file in files:
            self._add(file)
        here = tr("No file of Claude Desktop, Cursor, VS Code, LM Studio or Windsurf was found here.")
        self.state.setText("" if files else here)
        self.state.setVisible(not files)

    @Slot(object)
    def _show_chosen(self, files: tuple[FoundFile, ...]) -> None:
        self.state.hide()
        for file in files:
            self._add(file)
        if self.boxes:
            self.boxes[-1][0].setFocus()

    @Slot(str)
    def _fail(self, reason: str) -> None:
        self.state.setText(sentence(reason))
        self.state.show()

    def _add(self, file: FoundFile) -> None:
        """Lists the servers of a file, once."""
        if file.path in self._paths or len(self._paths) >= MOST_FILES:
            return
        self._paths.add(file.path)
        heading = label(plain(file.program or file.path.name), "card-title")
        path = Elided("caption")
        path.set_whole(plain(str(file.path), 700))
        column = column_of(heading, path, spacing=4)
        for server in file.servers:
            column.addLayout(self._row(server))
        for problem in file.problems:
            column.addWidget(label(sentence(plain(problem)), "error", wrap=True))
        if not file.servers and not file.problems:
            column.addWidget(label(tr("It declares no servers."), "caption", wrap=True))
        self._files.addLayout(column)
        self._count()

    def _row(self, server: ToolServer) -> QVBoxLayout:
        box = QCheckBox(plain(server.name, 48).replace("&", "&&"))
        is_here = server.identity in self._known
        box.setEnabled(not is_here)
        box.setAccessibleName(plain(server.name, 64))
        target = Elided("caption")
        target.set_whole(tr("Is here already.") if is_here else plain(server.target))
        for made in (box, target):
            made.setToolTip(target_tip(server))
            made.setAccessibleDescription(target_tip(server))
        box.toggled.connect(self._count)
        self.boxes.append((box, server))
        return column_of(box, row_of(Gap(INDENT), (target, 1), spacing=0), spacing=0)

    @Slot()
    def _count(self) -> None:
        count = sum(box.isChecked() for box, _ in self.boxes)
        self.take.setEnabled(count > 0)
        text = trn("Import {count} server", "Import {count} servers", count) if count else tr("Import")
        self.take.setText(text)
        self.take.setAccessibleName(text)

    @Slot()
    def _choose_file(self) -> None:
        if path := self._ask(self):
            self._read.ask(functools.partial(read_files, (("", Path(path)),)))


def free_name(name: str, taken: set[str]) -> str:
    """Returns a name, with a number behind it if another server has it."""
    if name not in taken:
        return name
    number = 2
    while f"{name[:58]} {number}" in taken:
        number += 1
    return f"{name[:58]} {number}"
