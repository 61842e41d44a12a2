"""The combo box of presets; its last entry opens the editor."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal, Slot
from PySide6.QtWidgets import QSizePolicy

from app.design.controls import ChoiceBox, introduce
from app.design.fonts import px
from app.presets.editor import PresetEditor
from app.presets.store import DEFAULT, PresetStore
from app.settings.values import SettingsValues
from app.system.i18n import tr

EDIT = "edit-presets"  # the last entry
WIDTH = 220  # pixels at 100 %, at most


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
        self.setMaximumWidth(px(WIDTH))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.activated.connect(self._take)
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
    def _take(self, index: int) -> None:
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
