"""The dialog that saves the current values as a preset, and renames, changes and deletes presets.

Valid changes are saved at once; others are kept as drafts.
"""

from __future__ import annotations

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
from app.presets.drafts import PresetDrafts
from app.presets.form import PresetForm
from app.presets.preset import Preset
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
        self._drafts = PresetDrafts(store)
        self._failure = store.problem
        self._pause = later(self, self.save, SAVE_DELAY_MS)

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
        self.list.currentItemChanged.connect(self._choose)
        self._show_current()
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

    @property
    def current(self) -> Preset:
        """The preset in the form."""
        return self._drafts.find(self.list.currentItem().data(Qt.ItemDataRole.UserRole))

    def _fill(self, current: str) -> None:
        """Lists all presets and selects one by id, or else the first."""
        self.list.blockSignals(True)
        self.list.clear()
        chosen = 0
        for place, preset in enumerate(self._drafts.presets):
            self._list(preset)
            if preset.id == current:
                chosen = place
        self.list.setCurrentRow(chosen)
        self.list.blockSignals(False)
        self._name_items()

    def _list(self, preset: Preset) -> None:
        item = QListWidgetItem(preset.name)
        item.setData(Qt.ItemDataRole.UserRole, preset.id)
        self.list.addItem(item)

    def _follow(self, shown: Preset) -> None:
        """Shows changes by other windows, which are read with each write."""
        self.list.blockSignals(True)
        there = {preset.id: preset for preset in self._drafts.presets}
        for row in reversed(range(self.list.count())):
            if there.pop(self.list.item(row).data(Qt.ItemDataRole.UserRole), None) is None:
                self.list.takeItem(row)
        for preset in there.values():
            self._list(preset)
        self.list.blockSignals(False)
        if self.current != shown:
            self.form.show_preset(self.current)

    def _name_items(self) -> None:
        unsaved = {draft.id for draft in self._drafts.unsaved() if self._drafts.problem(draft.id)}
        for row in range(self.list.count()):
            item = self.list.item(row)
            id = item.data(Qt.ItemDataRole.UserRole)
            name = self._drafts.find(id).name.strip() or tr("Without a name")
            item.setText(tr("{name} · not saved", name=name) if id in unsaved else name)

    def _show_current(self) -> None:
        self.form.show_preset(self.current)
        self._show_state()

    def _show_state(self) -> None:
        preset = self.current
        problem = self._drafts.problem(preset.id)
        self.message.setText(self._failure or problem)
        self.message.setVisible(bool(self._failure or problem))
        self.revert.setVisible(preset in self._drafts.unsaved())
        self.delete.setEnabled(not preset.is_built_in)
        gone = self._drafts.last_deleted
        self.deleted.setText(tr("“{name}” is deleted.", name=gone.name) if gone is not None else "")
        self.deleted.setVisible(gone is not None)
        self.undo.setVisible(gone is not None)
        self._name_items()

    @Slot()
    def save(self) -> None:
        """Writes valid changes now, without waiting for the timer."""
        self._pause.stop()
        shown = self.current
        if self._try(self._drafts.save):
            self._follow(shown)
        self._show_state()

    def _try(self, action: Callable[..., object], *given: object) -> bool:
        """Calls a function that writes, and shows its failure; drafts are kept. Returns True if it succeeded."""
        try:
            action(*given)
        except SafelightError as error:
            self._failure = str(error)
            return False
        self._failure = ""
        self.changed.emit()
        return True

    @Slot()
    def _take(self) -> None:
        self._drafts.change(self.form.preset)
        self._failure = ""
        self._show_state()
        self._pause.start()

    @Slot()
    def _choose(self) -> None:
        self.save()
        self._show_current()

    @Slot()
    def _add(self) -> None:
        if self.new.isEnabled() and self._insert(self._drafts.add, self._now):
            self.made = self.current.id

    @Slot()
    def _undelete(self) -> None:
        self._insert(self._drafts.undelete)

    def _insert(self, action: Callable[..., object], *given: object) -> bool:
        """Calls a function that adds a preset, and shows it. Returns True if it succeeded."""
        self.save()
        before = {preset.id for preset in self._drafts.presets}
        if self._try(action, *given):
            made = next(preset for preset in self._drafts.presets if preset.id not in before)
            self._fill(made.id)
            self._show_current()
            self._rename()
            return True
        self._show_state()
        return False

    @Slot()
    def _rename(self) -> None:
        self.form.name.setFocus()
        self.form.name.selectAll()

    @Slot()
    def _delete(self) -> None:
        preset, row = self.current, self.list.currentRow()
        if preset.is_built_in:
            return
        self.save()
        if self._try(self._drafts.delete, preset.id):
            self.made = "" if self.made == preset.id else self.made
            left = self._drafts.presets
            self._fill(left[min(row, len(left) - 1)].id)
            self._show_current()
            self.undo.setFocus()
        else:
            self._show_state()

    @Slot()
    def _revert(self) -> None:
        self._drafts.revert(self.current.id)
        self._failure = ""
        self._show_current()
        self.form.name.setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.list.scheduleDelayedItemsLayout()  # the rows were measured before the style sheet was applied

    def done(self, result: int) -> None:
        """Closes if everything is saved; otherwise shows an unsaved preset."""
        self.save()
        left = self._drafts.unsaved()
        if not left:
            super().done(result)
            return
        if self.current not in left:
            self._fill(left[0].id)
            self._show_current()
        self._rename()
