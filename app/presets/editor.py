"""The combo box of presets, and the dialog that saves the current values as one, renames, changes and deletes them.

Changes are saved before another preset is shown, and at the end; an invalid one is corrected before, or dropped by Esc.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QSizePolicy,
    QWidget,
)

from app.design.controls import ChoiceBox, Hairline, button, flow_of, introduce, label, scroller, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, Gap, boxed, column_of, row_of
from app.design.notice import ask
from app.design.text_field import TextField, refusal
from app.presets.store import DEFAULT, Preset, PresetStore, free_name, problem
from app.settings.fields import flag_box
from app.settings.values import SettingsValues, changes_in_words
from app.system.i18n import tr
from engine import SafelightError
from engine.settings import Switch

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
        self.name = introduce(QLineEdit(maxLength=200), tr("Name of the preset"))
        self.system_prompt = introduce(
            TextField(), tr("System prompt"), tr("Read by the model before every conversation")
        )
        self.system_prompt.setPlaceholderText(tr("What the model should know or how it should answer"))
        self.system_prompt.setTabChangesFocus(True)
        self.system_prompt.setFrameShape(QFrame.Shape.NoFrame)
        self.system_prompt.setFixedHeight(px(PROMPT_HEIGHT))
        self.too_long = label("", "remark", wrap=True)
        self.too_long.hide()
        self.think = flag_box(
            Switch("Think before answering", "The model writes its reasoning first, if it can.", name="think")
        )
        self.settings = label("", "fact", wrap=True)
        self.save_values = button(
            tr("Save the current values"),
            tip=tr("Sets what the sampler shows now"),
            role="plain",
            clicked=lambda: self._take_values(self._values),
        )
        self.clear_values = button(
            tr("Reset"),
            tr("Reset to the model's defaults"),
            role="plain",
            clicked=lambda: self._take_values(SettingsValues()),
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

    def _take_values(self, values: SettingsValues) -> None:
        self._shown = self._shown.with_values(values)
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


EDITOR_WIDTH, EDITOR_HEIGHT, LIST_WIDTH = 760, 560, 208  # pixels at 100 %
MAX_LIST_WIDTH = 280  # pixels


class PresetEditor(QDialog):
    """The editor of presets. Emits ``changed`` when the store's presets have changed.

    *Done* does not close it while a preset cannot be saved.
    """

    changed = Signal()

    def __init__(
        self,
        store: PresetStore,
        values: SettingsValues,
        current: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """
        Args:
            values: those that the sampler shows now.
            current: the id of the preset in use.
        """
        super().__init__(parent)
        self.setWindowTitle(tr("Presets"))
        now = store.find(current).with_values(values)
        self._now = now
        self.made = ""  # the id of the last preset that was made of the current values
        self._store = store
        self._shown = now  # as it is saved

        self.list = introduce(QListWidget(), tr("Presets"))
        self.list.setFixedWidth(min(px(LIST_WIDTH), MAX_LIST_WIDTH))
        tip = tr("Saves the current values of the sampler under a name")
        self.new = button(tr("New"), tr("New preset"), tip=tip, clicked=self._add)
        self.delete = button(tr("Delete"), tr("Delete the preset"), clicked=self._delete)
        self.question: QMessageBox | None = None
        self.form = PresetForm(values)
        self.form.edited.connect(self._check)
        self.message = label("", "error", wrap=True, name=tr("What is wrong with the preset"))
        self.done_button = button(tr("Done"), tr("Close the presets"), role="primary", clicked=self.accept)
        self.done_button.setAutoDefault(False)  # Enter in a field must not close the dialog
        for control in (self.new, self.delete, self.form.save_values, self.form.clear_values):
            control.setAutoDefault(False)
        self._lay_out()
        self._fill(current)
        show_line(self.message, store.problem)
        self.list.currentItemChanged.connect(self._choose)
        self.list.setFocus()

    def _lay_out(self) -> None:
        buttons = row_of(self.new, self.delete, STRETCH, spacing=16)
        left = column_of((self.list, 1), buttons, spacing=8)
        scroll = introduce(scroller(self.form), tr("The preset"))  # it scrolls to the focused field
        bottom = row_of(STRETCH, self.done_button)
        right = column_of((scroll, 1), self.message, bottom, spacing=8)
        self.setLayout(
            row_of(left, Hairline(Qt.Orientation.Vertical), (right, 1), margins=(16, 16, 16, 16), spacing=16)
        )
        room = self.screen().availableGeometry()
        self.resize(min(px(EDITOR_WIDTH), room.width() - 32), min(px(EDITOR_HEIGHT), room.height() - 64))

    def _fill(self, current: str) -> None:
        """Lists the store's presets, and shows one by its id, or else the default."""
        preset = self._store.find(current)
        with QSignalBlocker(self.list):
            self.list.clear()
            for one in self._store.presets:
                item = QListWidgetItem(one.name, self.list)
                item.setData(Qt.ItemDataRole.UserRole, one.id)
                if one.id == preset.id:
                    self.list.setCurrentItem(item)
        self._shown = preset
        if preset.id != self.form.preset.id or preset != self.form.preset:  # else the cursor would move in its field
            self.form.show_preset(preset)
        self.delete.setEnabled(not preset.is_built_in)
        show_line(self.message, "")

    def _names(self, *, without: str = "") -> list[str]:
        return [preset.name for preset in self._store.presets if preset.id != without]

    @Slot()
    def _check(self) -> None:
        """Shows why the preset in the form cannot be saved; another one can be chosen once it can."""
        preset = self.form.preset
        why = problem(preset, self._names(without=preset.id))
        show_line(self.message, why)
        for control in (self.list, self.new):
            control.setEnabled(not why)

    def _save(self) -> bool:
        """Saves the preset in the form if it was changed. Returns False, and says why, if it cannot be."""
        preset = self.form.preset
        if preset == self._shown:
            return True
        if why := problem(preset, self._names(without=preset.id)):
            show_line(self.message, why)
            return False
        return self._try(lambda: self._store.put(preset), preset.id)

    def _try(self, write: Callable[[], object], shown: str) -> bool:
        """Writes, and then shows a preset by its id; returns False, and says why, if nothing could be written."""
        try:
            write()
        except SafelightError as error:
            show_line(self.message, str(error))
            return False
        self._fill(shown)
        self.changed.emit()
        return True

    @Slot(QListWidgetItem)
    def _choose(self, chosen: QListWidgetItem) -> None:
        id = chosen.data(Qt.ItemDataRole.UserRole)
        if self._save():
            self._fill(id)

    @Slot()
    def _add(self) -> None:
        preset = self._now.replace(id=uuid.uuid4().hex, name=free_name(tr("New preset"), self._names()))
        if self.new.isEnabled() and self._save() and self._try(lambda: self._store.put(preset), preset.id):
            self.made = preset.id
            self._rename()

    @Slot()
    def _rename(self) -> None:
        self.form.name.setFocus()
        self.form.name.selectAll()

    @Slot()
    def _delete(self) -> None:
        said = tr("Delete the preset “{name}”?", name=self._shown.name)
        self.question = ask(self, said, lambda: self._drop(self._shown.id))

    def _drop(self, id: str) -> None:
        if self._try(lambda: self._store.remove(id), DEFAULT):
            self.made = "" if self.made == id else self.made

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.list.scheduleDelayedItemsLayout()  # the rows were measured before the style sheet was applied

    def done(self, result: int) -> None:
        """Saves and closes; Esc closes also if nothing can be saved."""
        if self._save() or result == QDialog.DialogCode.Rejected:
            super().done(result)
        else:
            self._rename()


EDIT = "edit-presets"  # the last entry
PICKER_WIDTH = 220  # pixels at 100 %, at most


class PresetPicker(ChoiceBox):
    """A box of presets. Emits ``chosen`` when the user selects one, and when the one in use was changed or deleted."""

    chosen = Signal(object)

    def __init__(self, store: PresetStore, values: SettingsValues) -> None:
        """``values`` are the sampler's, which a preset is made of."""
        super().__init__()
        self._store, self._values = store, values
        self.current = store.find(DEFAULT)
        self._changed = False
        self.editor: PresetEditor | None = None
        tip = tr("System prompt and sampler settings under a name")
        introduce(self, tr("Preset"), tip, tip=tip, id="preset")
        self.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        self.setMinimumContentsLength(8)
        self.setMaximumWidth(px(PICKER_WIDTH))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.activated.connect(self._choose)
        self.refresh()

    def show_preset(self, id: str) -> None:
        """Shows the preset in use, or the default if the id is unknown, without a signal."""
        self.current = self._store.find(id)
        self._changed = False
        self.refresh()

    def show_changed(self, changed: bool) -> None:
        """Shows if the settings in use differ from the preset's, without a signal."""
        if changed != self._changed:
            self._changed = changed
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        with QSignalBlocker(self):
            self.clear()
            for preset in self._store.presets:
                in_use = preset.id == self.current.id
                name = tr("{name}, changed", name=preset.name) if in_use and self._changed else preset.name
                self.addItem(name, preset.id)
            self.insertSeparator(self.count())
            self.addItem(tr("Edit presets…"), EDIT)
            self._show_index()

    @Slot()
    def edit_presets(self) -> None:
        """Opens the editor with the preset in use selected."""
        if self.editor is not None:
            self.editor.raise_()
            return
        self.editor = PresetEditor(self._store, self._values, self.current.id, self.window())
        self.editor.changed.connect(self.refresh)
        self.editor.finished.connect(self._edited)
        self.editor.open()

    def _show_index(self) -> None:
        self.setCurrentIndex(max(0, self.findData(self.current.id)))

    @Slot(int)
    def _choose(self, index: int) -> None:
        id = self.itemData(index)
        if id == EDIT:
            self._show_index()
            self.edit_presets()
            return
        self.show_preset(id)
        self.chosen.emit(self.current)

    @Slot()
    def _edited(self) -> None:
        was, used = self.current, self.current.id
        if self.editor is not None:
            used = self.editor.made or used
            self.editor.deleteLater()
            self.editor = None
        if self._store.find(used) != was:
            self.show_preset(used)
            self.chosen.emit(self.current)
