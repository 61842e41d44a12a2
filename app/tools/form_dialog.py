"""The dialog that adds a tool server or changes one: a form for programs, and one for addresses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QDialog, QFormLayout, QLineEdit, QWidget

from app.design.controls import ChoiceBox, button, introduce, label, restyle
from app.design.fonts import TEXT_SMALL, canvas_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import LONGEST_LINE, TextField, refusal
from app.system.i18n import tr
from app.tools.form import ServerFields, fields_of, read_fields
from engine import SafelightError
from engine.tools.declared import ToolServer

DIALOG_WIDTH = 560  # pixels at 100 %
LINES_HEIGHT = 76  # pixels at 100 %, of a field for several lines


class ToolServerDialog(QDialog):
    """A form for one server; ``made`` is what it declares, once it is accepted."""

    def __init__(self, taken: Collection[str], server: ToolServer | None = None, parent: QWidget | None = None) -> None:
        """
        Args:
            taken: the names of the other servers.
            server: the one that is changed; None adds one.
        """
        title = tr("Add a tool server") if server is None else tr("Change the tool server")
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        self.made: ToolServer | None = None
        self._taken = frozenset(taken)
        self._server = server
        self._is_touched = False
        self._make_fields()
        self.problem = label("", "caption", wrap=True, name=tr("What is wrong with the server"))
        self.cancel = button(tr("Cancel"), role="plain", clicked=self.reject)
        self.save = button(tr("Add") if server is None else tr("Save"), role="primary", clicked=self.accept)
        self.cancel.setAutoDefault(False)
        self.save.setDefault(True)
        self._lay_out(title)
        self._show(ServerFields() if server is None else fields_of(server))
        self.name.setFocus()

    def _make_fields(self) -> None:
        self.kind = introduce(ChoiceBox(), tr("Kind of server"))
        self.kind.addItem(tr("A program on this computer"), False)
        self.kind.addItem(tr("An address"), True)
        self.name = _line(tr("Name"), tr("files"))
        self.command = _line(tr("Command line"), "npx -y @modelcontextprotocol/server-filesystem ~/Documents")
        self.env = _lines(tr("Variables, one a line"), "API_KEY=…")
        self.cwd = _line(tr("Folder"), tr("where the program runs; may be empty"))
        self.url = _line(tr("Address"), "https://tools.example/mcp")
        self.headers = _lines(tr("Headers, one a line"), "Authorization: Bearer …")
        self.kind.currentIndexChanged.connect(self._touch)
        for line in (self.name, self.command, self.cwd, self.url):
            line.textEdited.connect(self._touch)
        for lines in (self.env, self.headers):
            lines.textChanged.connect(self._touch)
            lines.overlong.connect(lambda _text: self._say(refusal()))

    def _lay_out(self, title: str) -> None:
        self._form = form = QFormLayout(
            horizontalSpacing=16,
            verticalSpacing=8,
            fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow,
            rowWrapPolicy=QFormLayout.RowWrapPolicy.WrapLongRows,
        )
        for words, field in (
            (tr("Name"), self.name),
            (tr("Kind"), self.kind),
            (tr("Command line"), self.command),
            (tr("Variables"), self.env),
            (tr("Folder"), self.cwd),
            (tr("Address"), self.url),
            (tr("Headers"), self.headers),
        ):
            form.addRow(words, field)
        self.remark = label("", "caption", wrap=True)
        bottom = row_of(STRETCH, self.cancel, self.save, spacing=8)
        parts = (label(title, "title", wrap=True), form, self.remark, self.problem, STRETCH, bottom)
        self.setLayout(column_of(*parts, margins=(24, 24, 24, 24), spacing=12))
        room = self.screen().availableSize()
        self.resize(min(px(DIALOG_WIDTH), room.width() - 32), self.sizeHint().height())

    def _show(self, fields: ServerFields) -> None:
        self.name.setText(fields.name)
        self.kind.setCurrentIndex(int(fields.is_address))
        self.command.setText(fields.command)
        self.env.setPlainText(fields.env)
        self.cwd.setText(fields.cwd)
        self.url.setText(fields.url)
        self.headers.setPlainText(fields.headers)
        self._is_touched = self._server is not None  # what was typed is, what was set is not
        self.check()

    @property
    def fields(self) -> ServerFields:
        """The present texts of the form."""
        return ServerFields(
            self.name.text(),
            self.kind.currentData(),
            self.command.text(),
            self.env.raw(),
            self.cwd.text(),
            self.url.text(),
            self.headers.raw(),
        )

    @Slot()
    def _touch(self) -> None:
        self._is_touched = True
        self.check()

    def check(self) -> None:
        """Shows the form of the kind that is chosen, and what is wrong with it."""
        is_address = bool(self.kind.currentData())
        for field in (self.command, self.env, self.cwd):
            self._form.setRowVisible(field, not is_address)
        for field in (self.url, self.headers):
            self._form.setRowVisible(field, is_address)
        self.remark.setText(
            tr("Safelight connects to the address as soon as you add it.")
            if is_address
            else tr("The program starts as soon as you add it. It runs with your rights: it can read and write your "
                    "files.")
        )  # fmt: skip
        try:
            server = read_fields(self.fields, self._taken)
        except SafelightError as error:
            self.made = None
            self._say(str(error))
        else:
            self.made = server if self._server is None else replace(server, is_on=self._server.is_on)
            self._say("")
        self.save.setEnabled(self.made is not None)

    def _say(self, text: str) -> None:
        restyle(self.problem, "role", "error" if self._is_touched else "caption")
        self.problem.setText(text)

    @Slot()
    def accept(self) -> None:
        if self.made is not None:
            super().accept()


def _line(name: str, example: str) -> QLineEdit:
    return introduce(QLineEdit(maxLength=LONGEST_LINE, placeholderText=example), name)


def _lines(name: str, example: str) -> TextField:
    field = introduce(TextField(), name)
    field.setPlaceholderText(example)
    field.setTabChangesFocus(True)
    field.setFont(canvas_font(TEXT_SMALL + 1))
    field.setFixedHeight(px(LINES_HEIGHT))
    return field
