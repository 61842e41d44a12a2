"""The form of one preset: name, system prompt, thinking, and the sampler's values that it sets."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget

from app.design.controls import button, flow_of, label
from app.design.fonts import px
from app.design.layouts import Gap, boxed, column_of
from app.design.text_field import TextField, refusal
from app.presets.preset import Preset
from app.settings.decoders import changes_in_words
from app.settings.fields import flag_box
from app.settings.values import SettingsValues
from app.system.i18n import tr

PROMPT_HEIGHT = 144  # pixels at 100 %


class PresetForm(QWidget):
    """The form of a preset. Emits ``edited`` after a change by the user; ``preset`` is its content, valid or not.

    ``values`` are those that the sampler shows now.
    """

    edited = Signal()

    def __init__(self, values: SettingsValues) -> None:
        super().__init__()
        self._values = values
        self._shown = Preset("", "")
        self._filling = False
        self._hidden = ""  # a system prompt that is too long for its field
        self.note = label(tr("This preset comes with Safelight and cannot be changed."), "remark", wrap=True)
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
        self.settings = label("", "fact", wrap=True)
        self.save_values = button(
            tr("Save the current values"),
            tip=tr("Sets what the sampler shows now"),
            role="plain",
            clicked=self._save_values,
        )
        self.clear_values = button(
            tr("Reset"), tr("Reset to the model's defaults"), role="plain", clicked=self._clear_values
        )
        self._lay_out()
        self.name.textEdited.connect(self._edit)
        self.system_prompt.textChanged.connect(self._write)
        self.system_prompt.overlong.connect(self._refuse)
        self.think.toggled.connect(self._edit)

    def _lay_out(self) -> None:
        self._note_place = boxed(column_of(self.note, margins=(0, 0, 0, 16)))
        named = (label(tr("Name"), "setting"), self.name, Gap(12))
        prompted = (label(tr("System prompt"), "setting"), self.system_prompt, self.too_long, Gap(12))
        acts = flow_of(self.save_values, self.clear_values)
        sampled = (label(tr("Sampler"), "setting"), self.settings, Gap(4), acts)
        parts = (self._note_place, *named, *prompted, self.think, Gap(12), *sampled)
        column = column_of(*parts, margins=(0, 0, 12, 0), spacing=4)
        column.addStretch(1)
        self.setLayout(column)

    @property
    def preset(self) -> Preset:
        """The form's content, with the id of the shown preset."""
        prompt = self.system_prompt.raw() or self._hidden
        return self._shown.replace(
            name=self.name.text(),
            system_prompt=prompt,
            think=self.think.isChecked(),
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
        self._filling = False
        self._show_settings()

    def _show_settings(self) -> None:
        preset = self._shown
        said = changes_in_words(dict(preset.overrides), preset.decoding)
        self.settings.setText(said or tr("The model's defaults."))
        now = preset.with_values(self._values)
        self.save_values.setEnabled(not preset.is_built_in and now != preset)
        self.clear_values.setEnabled(bool(said) and not preset.is_built_in)

    @Slot()
    def _save_values(self) -> None:
        self._shown = self._shown.with_values(self._values)
        self._show_settings()
        self._edit()

    @Slot()
    def _clear_values(self) -> None:
        self._shown = self._shown.with_values(SettingsValues())
        self._show_settings()
        self._edit()

    @Slot(str)
    def _refuse(self, text: str) -> None:
        said = refusal()
        if self._filling:
            self._hidden = text
            said = tr("It is too long to show, but it is used. What you write here replaces it.")
        self.too_long.setText(said)
        self.too_long.show()

    @Slot()
    def _write(self) -> None:
        self.too_long.setVisible(bool(self._hidden) and not self.system_prompt.raw())
        self._edit()

    @Slot()
    def _edit(self) -> None:
        if not self._filling:
            self.edited.emit()
