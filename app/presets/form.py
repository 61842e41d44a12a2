"""The form of one preset: name, system prompt, thinking, and a row for each declared sampler setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QLineEdit, QWidget

from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import boxed, column_of
from app.design.text_field import TextField, refusal
from app.presets.preset import Preset, overrides_in_order
from app.settings.decoding_fields import DecodingFields
from app.settings.fields import NumberBox, flag_box, number_box, number_in, put_number, start_number
from app.settings.spec import SAMPLER, Setting
from app.system.i18n import tr
from engine import GenerationConfig

PROMPT_HEIGHT = 96  # pixels at 100 %


class PresetForm(QWidget):
    """The form of a preset. Emits ``edited`` after a change by the user; ``preset`` is its content, valid or not."""

    edited = Signal()

    def __init__(self, defaults: GenerationConfig, decoders: Sequence[str] = ()) -> None:
        super().__init__()
        self._defaults, self._decoders = defaults, tuple(decoders)  # of the loaded model
        self._shown = Preset("", "")
        self._filling = False
        self._hidden = ""  # a system prompt that is too long for its field
        self.note = label(tr("This preset comes with Safelight. Duplicate it to change it."), "remark", wrap=True)
        self.name = QLineEdit()
        self.name.setMaxLength(200)
        self.name.setAccessibleName(tr("Name of the preset"))
        self.system_prompt = TextField()
        self.system_prompt.setAccessibleName(tr("System prompt"))
        self.system_prompt.setAccessibleDescription(tr("Read by the model before every conversation"))
        self.system_prompt.setPlaceholderText(tr("What the model should know or how it should answer"))
        self.system_prompt.setTabChangesFocus(True)
        self.system_prompt.setFrameShape(QFrame.Shape.NoFrame)
        self.system_prompt.setFixedHeight(px(PROMPT_HEIGHT))
        self.too_long = label("", "remark", wrap=True)
        self.too_long.hide()
        self.think = flag_box("think", "Think before answering", "The model writes its reasoning first, if it can.")
        self.own: dict[str, QCheckBox] = {}
        self.boxes: dict[str, NumberBox] = {}
        self._rows: dict[str, tuple[QWidget, ...]] = {}
        self.decoding = DecodingFields(offers_own=True)
        self.decoding.setContentsMargins(0, 0, 0, 12)

        self._note_place = boxed(column_of(self.note, margins=(0, 0, 0, 16)))
        column = column_of(self._note_place, margins=(0, 0, 12, 0), spacing=4)
        self.setLayout(column)
        for title, field in ((tr("Name"), self.name), (tr("System prompt"), self.system_prompt)):
            column.addWidget(label(title, "setting"))
            column.addWidget(field)
            column.addSpacing(12)
        column.insertWidget(column.indexOf(self.system_prompt) + 1, self.too_long)
        column.addWidget(self.think)
        column.addSpacing(12)
        column.addWidget(self.decoding)
        column.addWidget(label(tr("Sampler"), "setting"))
        column.addWidget(label(tr("A setting without a tick follows the model."), "caption", wrap=True))
        column.addSpacing(4)
        rows = QGridLayout()
        rows.setHorizontalSpacing(12)
        rows.setVerticalSpacing(4)
        rows.setColumnStretch(0, 1)
        for row, setting in enumerate(SAMPLER):
            self._add_row(rows, row, setting)
        column.addLayout(rows)
        column.addStretch(1)
        self.name.textEdited.connect(self._edit)
        self.system_prompt.textChanged.connect(self._write)
        self.system_prompt.overlong.connect(self._refuse)
        self.think.toggled.connect(self._edit)
        self.decoding.changed.connect(self._choose_decoding)

    def _add_row(self, rows: QGridLayout, row: int, setting: Setting) -> None:
        own, box = flag_box(f"own_{setting.name}", setting.label, setting.explanation), number_box(setting)
        own.setAccessibleName(tr("Set {setting}", setting=tr(setting.label)))
        box.setMinimumWidth(px(96))
        own.toggled.connect(self._tick)
        box.valueChanged.connect(self._edit)
        rows.addWidget(own, row, 0)
        unit = label(tr(setting.unit) if setting.unit else "", "caption")
        rows.addWidget(unit, row, 1, Qt.AlignmentFlag.AlignRight)
        self._rows[setting.name] = own, unit, box
        rows.addWidget(box, row, 2)
        self.own[setting.name], self.boxes[setting.name] = own, box

    @property
    def preset(self) -> Preset:
        """The form's content, with the id of the shown preset."""
        shown = dict(self._shown.overrides)
        values = {}
        for setting in SAMPLER:
            if self.own[setting.name].isChecked():
                value = number_in(self.boxes[setting.name], setting, shown.get(setting.name))
                if value is not None:
                    values[setting.name] = value
        return Preset(
            self._shown.id,
            self.name.text(),
            self.system_prompt.toPlainText() or self._hidden,
            overrides_in_order(values.items()),
            self.think.isChecked(),
            self.decoding.choice,
        )

    def show_preset(self, preset: Preset) -> None:
        """Fills the form without emitting ``edited``; a built-in preset is read-only."""
        self._filling = True
        self._shown = preset
        fixed = preset.is_built_in
        self._note_place.setVisible(fixed)
        self.name.setText(preset.name)
        self.name.setReadOnly(fixed)
        self._hidden = ""
        self.too_long.hide()
        self.system_prompt.setPlainText(preset.system_prompt)
        self.system_prompt.setReadOnly(fixed)
        self.think.setChecked(preset.think)
        self.think.setEnabled(not fixed)
        self.decoding.show_choice(preset.decoding, self._decoders)
        self.decoding.setEnabled(not fixed)
        self._show_rows()
        own = dict(preset.overrides)
        for setting in SAMPLER:
            self.own[setting.name].setChecked(setting.name in own)
            self.own[setting.name].setEnabled(not fixed)
            self.boxes[setting.name].setEnabled(setting.name in own and not fixed)
            put_number(self.boxes[setting.name], own.get(setting.name, getattr(self._defaults, setting.name)))
        self._filling = False

    def _show_rows(self) -> None:
        """Shows only the settings that the chosen decoder uses."""
        choice = self.decoding.choice
        own = next(iter(self._decoders), "")
        shown = (choice if choice.decoder else replace(choice, decoder=own)).settings
        for name, parts in self._rows.items():
            for part in parts:
                part.setVisible(name in shown)

    def finish_typing(self) -> None:
        """Applies numbers that are typed but not confirmed yet."""
        for box in self.boxes.values():
            box.interpretText()

    @Slot(str)
    def _refuse(self, text: str) -> None:
        said = refusal()
        if self._filling:
            self._hidden = text
            said = tr("It is too long to be shown, and used as it is. What is written here takes its place.")
        self.too_long.setText(said)
        self.too_long.show()

    @Slot()
    def _write(self) -> None:
        self.too_long.setVisible(bool(self._hidden) and not self.system_prompt.toPlainText())
        self._edit()

    @Slot(bool)
    def _tick(self, checked: bool) -> None:
        if self._filling:
            return
        name = self.sender().objectName().removeprefix("own_")
        self.boxes[name].setEnabled(checked)
        self._filling = True
        if checked:
            start_number(self.boxes[name])
        else:
            put_number(self.boxes[name], getattr(self._defaults, name))
        self._filling = False
        self._edit()

    @Slot()
    def _choose_decoding(self) -> None:
        if not self._filling:
            self._show_rows()
            self._edit()

    @Slot()
    def _edit(self) -> None:
        if not self._filling:
            self.edited.emit()
