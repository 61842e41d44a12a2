"""The dialog that saves the current values as a preset, and renames, changes and deletes presets.

Valid changes are saved at once; an invalid one is corrected, or reverted, before another preset is chosen.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QWidget,
)

from app.design.controls import Hairline, button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.presets.form import PresetForm
from app.presets.preset import BUILT_IN_IDS, Preset, free_name, problem
from app.presets.store import PresetStore
from app.settings.values import SettingsValues
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError

SAVE_DELAY_MS = 400
WIDTH, HEIGHT, LIST_WIDTH = 760, 560, 208  # pixels at 100 %
MOST_LIST_WIDTH = 280  # pixels


class PresetEditor(QDialog):
    """The editor of presets. Emits ``changed`` when the store's presets have changed.

    It does not close while a preset cannot be saved.
    """

    changed = Signal()

    def __init__(
        self,
        store: PresetStore,
        values: SettingsValues,
        current: str = "",
        outline: str = "",
        parent: QWidget | None = None,
    ) -> None:
        """
        Args:
            values: those that the sampler shows now.
            current: the id of the preset in use.
            outline: the text with gaps that a new preset begins with, instead of that of the one in use.
        """
        super().__init__(parent)
        self.setWindowTitle(tr("Presets"))
        now = store.find(current).with_values(values)
        self._now = now.replace(outline=outline or now.outline)
        self.made = ""  # the id of the last preset that was made of the current values
        self._store = store
        self._shown = now  # as it is saved
        self._gone: tuple[int, Preset] | None = None  # the preset that was deleted last, and its place
        self._pause = later(self, self._save, SAVE_DELAY_MS)

        self.list = QListWidget()
        self.list.setAccessibleName(tr("Presets"))
        self.list.setFixedWidth(min(px(LIST_WIDTH), MOST_LIST_WIDTH))
        tip = tr("Saves the current values of the sampler under a name")
        self.new = button(tr("New"), tr("New preset"), tip=tip, clicked=self._add)
        self.delete = button(tr("Delete"), tr("Delete the preset"), clicked=self._delete)
        self.deleted = label("", "caption", wrap=True)
        self.undo = button(tr("Undo"), tr("Restore the deleted preset"), clicked=self._undelete)
        self.form = PresetForm(values)
        self.form.edited.connect(self._take)
        self.message = label("", "error", wrap=True)
        self.message.setAccessibleName(tr("What is wrong with the preset"))
        self.revert = button(tr("Revert"), tr("Go back to the saved preset"), clicked=self._revert)
        self.done_button = button(tr("Done"), tr("Close the presets"), role="primary", clicked=self.accept)
        self.done_button.setAutoDefault(False)  # Enter in a field must not close the dialog
        for control in (self.new, self.delete, self.undo, self.revert, self.form.save_values, self.form.clear_values):
            control.setAutoDefault(False)
        self._lay_out()
        for keys, slot in ((QKeySequence.StandardKey.New, self._add), ("F2", self._rename)):
            QShortcut(QKeySequence(keys), self).activated.connect(slot)
        delete = QShortcut(QKeySequence(QKeySequence.StandardKey.Delete), self.list)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        delete.activated.connect(self._delete)
        self._fill(current)
        self._say(store.problem, is_saved=True)
        self.list.currentItemChanged.connect(self._choose)
        self.list.setFocus()

    def _lay_out(self) -> None:
        buttons = row_of(self.new, self.delete, STRETCH, spacing=16)
        undo = row_of((self.deleted, 1), self.undo, spacing=16)
        left = column_of((self.list, 1), buttons, undo, spacing=8)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it scrolls to the focused field
        scroll.setAccessibleName(tr("The preset"))
        scroll.setWidget(self.form)
        bottom = row_of(STRETCH, self.revert, self.done_button, spacing=16)
        right = column_of((scroll, 1), self.message, bottom, spacing=8)
        self.setLayout(
            row_of(left, Hairline(Qt.Orientation.Vertical), (right, 1), margins=(16, 16, 16, 16), spacing=16)
        )
        room = self.screen().availableGeometry()
        self.resize(min(px(WIDTH), room.width() - 32), min(px(HEIGHT), room.height() - 64))

    def _fill(self, current: str) -> None:
        """Lists the store's presets, and shows one by its id, or else the default."""
        preset = self._store.find(current)
        self.list.blockSignals(True)
        self.list.clear()
        for one in self._store.presets:
            item = QListWidgetItem(one.name, self.list)
            item.setData(Qt.ItemDataRole.UserRole, one.id)
            if one.id == preset.id:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        self._shown = preset
        if preset.id != self.form.preset.id or preset != self.form.preset:  # else the cursor would move in its field
            self.form.show_preset(preset)
        self.delete.setEnabled(not preset.is_built_in)
        self.deleted.setText("" if self._gone is None else tr("“{name}” is deleted.", name=self._gone[1].name))
        self.deleted.setVisible(self._gone is not None)
        self.undo.setVisible(self._gone is not None)
        self._say("", is_saved=True)

    def _say(self, why: str, *, is_saved: bool) -> None:
        """Shows why the preset in the form cannot be saved; another one can be chosen once it is."""
        self.message.setText(why)
        self.message.setVisible(bool(why))
        self.revert.setVisible(not is_saved)
        for control in (self.list, self.new):
            control.setEnabled(is_saved or not why)

    def _names(self, *, without: str = "") -> list[str]:
        return [preset.name for preset in self._store.presets if preset.id != without]

    @Slot()
    def _take(self) -> None:
        preset = self.form.preset
        self._say(problem(preset, self._names(without=preset.id)), is_saved=preset == self._shown)
        self._pause.start()

    @Slot()
    def _save(self) -> bool:
        """Saves the preset in the form if it was changed. Returns False, and says why, if it cannot be."""
        self._pause.stop()
        preset = self.form.preset
        if preset == self._shown:
            return True
        if why := problem(preset, self._names(without=preset.id)):
            self._say(why, is_saved=False)
            return False
        return self._try(lambda: self._store.put(preset), preset.id)

    def _try(self, write: Callable[[], object], shown: str) -> bool:
        """Writes, and then shows a preset by its id; returns False, and says why, if nothing could be written."""
        try:
            write()
        except SafelightError as error:
            self._say(str(error), is_saved=False)
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
        preset, own = self._shown, [one.id for one in self._store.own]
        if preset.is_built_in:
            return
        place = own.index(preset.id)
        left = [*BUILT_IN_IDS, *own[:place], *own[place + 1 :]]
        before, self._gone = self._gone, (place, preset)
        if self._try(lambda: self._store.remove(preset.id), left[min(len(BUILT_IN_IDS) + place, len(left) - 1)]):
            self.made = "" if self.made == preset.id else self.made
            self.undo.setFocus()
        else:
            self._gone = before

    @Slot()
    def _undelete(self) -> None:
        if self._gone is not None and self._save():
            place, preset = self._gone
            preset = preset.replace(name=free_name(preset.name, self._names()))
            if self._try(lambda: self._store.put(preset, place), preset.id):
                self._gone = None
                self._fill(preset.id)
                self._rename()

    @Slot()
    def _revert(self) -> None:
        self._pause.stop()
        self._fill(self._shown.id)
        self.form.name.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.list.scheduleDelayedItemsLayout()  # the rows were measured before the style sheet was applied

    def done(self, result: int) -> None:
        """Closes if everything is saved."""
        if self._save():
            super().done(result)
        else:
            self._rename()
