"""The models page's part on remote servers: a field to add one, and their rows. Knows no network."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget

from app.design.controls import (
    ChoiceBox,
    FocusGroup,
    button,
    chain_tabs,
    discard,
    flow_of,
    introduce,
    label,
    restyle,
    show_line,
)
from app.design.layouts import Gap, column_of, row_of
from app.design.notice import Notice
from app.system.i18n import tr

LONGEST_KEY = 4096
FIELD_WIDTH = 240
LEAST_CHOICE = 20  # characters
LONGEST_ADDRESS = 2048


def key_field(name: str) -> QLineEdit:
    """Returns a field for a key, which it does not show."""
    field = introduce(QLineEdit(echoMode=QLineEdit.EchoMode.Password, maxLength=LONGEST_KEY), name)
    field.setFixedWidth(FIELD_WIDTH)
    return field


class RemoteRow(QFrame):
    """Emits requests for the server of ``base``."""

    load_asked = Signal(str)  # a model's name
    model_chosen = Signal(str)
    key_given = Signal(str)  # empty: remove the key

    def __init__(self, base: str) -> None:
        super().__init__()
        introduce(self, base, role="model")
        self._base = base
        self.title = label(base, "model-title", wrap=True, selectable=True)
        self.status = label("", "fact")
        self.purpose = label("", "fact", wrap=True)
        self.detail = label("", "fact", wrap=True)
        self.notice = Notice()
        self.models = introduce(ChoiceBox(), tr("Model of {server}", server=base))
        self.models.setMinimumContentsLength(LEAST_CHOICE)
        self.load = button(tr("Load"), role="plain", tip=tr("Loads this model in place of the one that answers now"))
        self.unload = button(tr("Unload"), role="plain", tip=tr("No model answers then; the server keeps running"))
        self.test = button(tr("Test"), tip=tr("Asks the server which models it has"))
        self.key = button(tr("Key…"), tip=tr("The key that the server asks for"), checkable=True)
        self.remove = button(tr("Remove from the list"), tip=tr("The server keeps running"))
        self.key_field = key_field(tr("Key of {server}", server=base))
        self.save_key = button(tr("Save the key"), role="plain", clicked=self._save)
        self.forget_key = button(tr("Forget the key"), clicked=self._forget)
        for control in (self.load, self.unload, self.test, self.key, self.remove, self.save_key, self.forget_key):
            control.setAccessibleName(f"{control.text().rstrip('…')}: {base}")
        self._acts = FocusGroup(self.load, self.unload, self.test)
        self._lay_out()
        self._connect()
        self._show_key_strip()

    def _lay_out(self) -> None:
        heading = row_of((self.title, 1), (self.status, 0, Qt.AlignmentFlag.AlignTop), spacing=16)
        acts = self.tab_order()
        strip, self._key_strip = (flow_of(*part, gap=16, row_gap=4) for part in (acts[:6], acts[6:]))
        self.setLayout(
            column_of(
                heading,
                self.purpose,
                self.detail,
                self.notice,
                Gap(4),
                strip,
                self._key_strip,
                margins=(20, 16, 20, 16),
                spacing=4,
            )
        )

    def _connect(self) -> None:
        self.load.clicked.connect(self._load)
        self.key.toggled.connect(self._show_key_strip)
        self.key_field.returnPressed.connect(self._save)
        self.key_field.textChanged.connect(self._show_key_strip)
        self.models.activated.connect(self._choose)

    def show_state(
        self,
        *,
        status: str,
        purpose: str,
        detail: str,
        models: Sequence[str],
        model: str,
        is_loaded: bool,
        is_loading: bool,
        is_trying: bool,
        has_key: bool,
        wants_key: bool,
        blocked: str,
    ) -> None:
        """Shows the whole state again.

        Args:
            model: the chosen one of ``models``.
            blocked: why the server cannot be asked now.
        """
        self.status.setText(status)
        self.setAccessibleDescription(f"{status}. {detail}")
        for widget, text in ((self.purpose, purpose), (self.detail, detail)):
            show_line(widget, text)
        names = list(models) or ([model] if model else [])
        if names != [self.models.itemText(place) for place in range(self.models.count())]:
            self.models.clear()
            self.models.addItems(names)
        self.models.setCurrentIndex(max(0, names.index(model)) if model in names else 0)
        self.models.setVisible(bool(names))
        is_held = is_loaded or is_loading
        with self._acts:
            self.load.setVisible(bool(names) and not is_held)
            self.unload.setVisible(is_held)
            self.unload.setText(tr("Stop loading") if is_loading else tr("Unload"))
            self.unload.setAccessibleName(f"{self.unload.text()}: {self._base}")
            for control in (self.load, self.test):
                control.setEnabled(not blocked and not (control is self.test and is_trying))
            self.remove.setEnabled(not is_held)
        self.load.setToolTip(blocked or self.load.accessibleDescription())
        self.remove.setToolTip(tr("Unload it first") if is_held else self.remove.accessibleDescription())
        self.forget_key.setVisible(has_key)
        self.key_field.setPlaceholderText(tr("A key is kept") if has_key else tr("Key"))
        if wants_key and not self.key.isChecked():
            self.key.setChecked(True)
        if self.property("loaded") != is_loaded:
            restyle(self, "loaded", is_loaded)

    def tab_order(self) -> tuple[QWidget, ...]:
        acts = (self.models, self.load, self.unload, self.test, self.key, self.remove)
        return (*acts, self.key_field, self.save_key, self.forget_key)

    @Slot()
    def _show_key_strip(self) -> None:
        self._key_strip.setVisible(self.key.isChecked())
        self.save_key.setEnabled(bool(self.key_field.text().strip()))

    @Slot()
    def _load(self) -> None:
        self.load_asked.emit(self.models.currentText())

    @Slot(int)
    def _choose(self, _index: int) -> None:
        self.model_chosen.emit(self.models.currentText())

    @Slot()
    def _save(self) -> None:
        key = self.key_field.text().strip()
        if key:
            self.key_field.clear()
            self.key.setChecked(False)
            self.key_given.emit(key)

    @Slot()
    def _forget(self) -> None:
        self.key_field.clear()
        self.key.setChecked(False)
        self.key_given.emit("")


class RemoteSection(QWidget):
    add_asked = Signal(str, str)  # an address and a key, which may be empty

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, RemoteRow] = {}
        self.address = introduce(
            QLineEdit(maxLength=LONGEST_ADDRESS, placeholderText="http://127.0.0.1:8000"), tr("Address of a server")
        )
        self.address.setMinimumWidth(FIELD_WIDTH)
        self.key = key_field(tr("Key of the server, if it asks for one"))
        self.key.setPlaceholderText(tr("Key, if it asks for one"))
        self.add_button = button(
            tr("Add and test"), role="plain", tip=tr("Asks the server which models it has"), clicked=self._add
        )
        self.notice = Notice()
        self._rows = column_of(spacing=8)
        about = tr(
            "A model that another program or machine runs: another Safelight, vLLM, or any server that speaks OpenAI's "
            "protocol. What you ask is sent there."
        )
        self.setLayout(
            column_of(
                label(tr("Remote engines"), "group"),
                label(about, "fact", wrap=True),
                self._rows,
                self.notice,
                flow_of(self.address, self.key, self.add_button),
                margins=(0, 16, 0, 0),
                spacing=8,
            )
        )
        self.address.returnPressed.connect(self._add)
        self.key.returnPressed.connect(self._add)
        self.address.textChanged.connect(self._typed)
        self._typed()

    def add_row(self, base: str, row: RemoteRow) -> None:
        self.rows[base] = row
        self._rows.addWidget(row)

    def remove_row(self, base: str) -> None:
        discard(self.rows.pop(base))

    def chain(self) -> None:
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
