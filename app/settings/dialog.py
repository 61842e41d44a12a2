"""The settings dialog, derived from the declarations in ``app.settings.preferences``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QSettings, Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QListWidget,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.design.controls import Hairline, button, introduce, label, restyle, scroller, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.settings import store
from app.settings.fields import choice_box, flag_box, number_box
from app.settings.preferences import (
    KEYS,
    SECTIONS,
    Act,
    Folder,
    Preference,
    Preferences,
    PreferenceSection,
)
from app.settings.values import SettingsValues
from app.system.folders import default_data_folder, ensure
from app.system.i18n import tr
from engine import SafelightError
from engine.settings import Choice, Setting, Switch

LIST_WIDTH, DIALOG_WIDTH, DIALOG_HEIGHT = 200, 760, 560

Ask = Callable[[QWidget, str, str], str]
"""Asks for a folder: takes parent, title and initial folder; returns an empty string if none was chosen."""


def _ask_folder(parent: QWidget, title: str, start: str) -> str:
    return QFileDialog.getExistingDirectory(parent, title, start)


class SettingsDialog(QDialog):
    """Edits ``preferences`` and ``values`` in place, stores the former, and emits the name of what changed.

    The caller stores ``values`` and runs the act that ``act_requested`` names; ``say`` shows the result.
    """

    changed = Signal(str)
    act_requested = Signal(str)

    def __init__(
        self,
        preferences: Preferences,
        values: SettingsValues,
        settings: QSettings,
        parent: QWidget | None = None,
        *,
        ask_folder: Ask = _ask_folder,
        further: Sequence[tuple[str, QWidget]] = (),
    ) -> None:
        """
        Args:
            further: parts that are not made of preferences: the title of a section, which may be one of the others, and
                a widget each. Its object name is what ``show_setting`` takes.
        """
        super().__init__(parent, modal=True)
        self.setWindowTitle(tr("Settings"))
        introduce(self, tr("Settings"), id="preferences")
        self._preferences = preferences
        self._values = values
        self._settings = settings
        self._ask_folder = ask_folder
        self._filling = False
        self.controls: dict[str, QWidget] = {}
        self._puts: dict[str, Callable[[Any], object]] = {}  # show a value, by the name of its setting
        self._remarks: dict[str, QLabel] = {}
        self.sections = introduce(QListWidget(), tr("Sections of the settings"), id="sections")
        self.sections.setFrameShape(QFrame.Shape.NoFrame)
        self.sections.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.pages = QStackedWidget()
        self._places: dict[str, int] = {}  # of the sections, by the names of their settings
        *firsts, last = SECTIONS
        parts = dict(further)
        self.controls |= {widget.objectName(): widget for widget in parts.values()}
        for section in firsts:
            self._add_preferences(section, parts.pop(tr(section.title), None))
        for title, widget in parts.items():
            self._add_section(title, [widget], [widget.objectName()])
        self._add_preferences(last)
        self.sections.currentRowChanged.connect(self.pages.setCurrentIndex)
        self.sections.setCurrentRow(0)
        self.done_button = button(tr("Close"), tr("Close the settings"), role="plain", clicked=self.accept)
        self.done_button.setAutoDefault(False)
        self._lay_out()
        self.refresh()

    def _lay_out(self) -> None:
        middle = row_of(self.sections, Hairline(Qt.Orientation.Vertical), (self.pages, 1), spacing=0)
        foot = row_of(
            label(tr("Changes take effect at once, unless a setting says otherwise."), "caption"),
            STRETCH,
            self.done_button,
            margins=(16, 12, 16, 12),
        )
        self.setLayout(column_of((middle, 1), Hairline(), foot, spacing=0))
        self._fit()

    def _fit(self) -> None:
        room = self.screen().availableSize()
        self.sections.setFixedWidth(min(px(LIST_WIDTH), 320))
        self.resize(min(px(DIALOG_WIDTH), room.width() - 32), min(px(DIALOG_HEIGHT), room.height() - 64))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.sections.doItemsLayout()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.sections.doItemsLayout()  # rows measured before the style sheet was applied would overlap
        self.sections.setFocus()

    def _add_preferences(self, section: PreferenceSection, part: QWidget | None = None) -> None:
        rows: list[QWidget | QLayout] = [self._row(item) for item in section.items]
        names = [item.name for item in section.items]
        if part is not None:
            rows.append(part)
            names.append(part.objectName())
        self._add_section(tr(section.title), rows, names)

    def _add_section(self, title: str, parts: Sequence[QWidget | QLayout], names: Sequence[str]) -> None:
        heading = label(title, "title", wrap=True)
        page = scroller(boxed(column_of(heading, *parts, STRETCH, margins=(24, 24, 24, 24), spacing=24)))
        self._places |= dict.fromkeys(names, self.pages.count())
        self.sections.addItem(title)
        self.pages.addWidget(introduce(page, title))

    def _row(self, item: Preference) -> QVBoxLayout:
        row = column_of(spacing=4)
        if not isinstance(item, Switch):  # a switch has its own label
            row.addWidget(label(tr(item.label), "setting", wrap=True))
        row.addLayout(self._control(item))
        row.addWidget(label(tr(item.explanation), "caption", wrap=True))
        remark = label("", "done", wrap=True, name=tr("Remark on {setting}", setting=tr(item.label)))
        remark.hide()
        self._remarks[item.name] = remark
        row.addWidget(remark)
        return row

    def _control(self, item: Preference) -> QHBoxLayout:
        row = row_of(spacing=8)
        control: QWidget
        match item:
            case Choice():
                control = choice = choice_box(item)
                choice.activated.connect(lambda _index: self._set(item.name, choice.currentData()))
                choice.setMinimumWidth(200)
                self._puts[item.name] = lambda value: choice.setCurrentIndex(max(0, choice.findData(value)))
                row.addWidget(choice)
            case Setting():
                control = box = number_box(item)
                box.valueChanged.connect(functools.partial(self._set, item.name))
                box.setMinimumWidth(112)
                self._puts[item.name] = box.put
                row.addWidget(box)
                row.addWidget(label(tr(item.unit), "caption"))
            case Switch():
                control = switch = flag_box(item)
                switch.toggled.connect(functools.partial(self._set, item.name))
                self._puts[item.name] = switch.setChecked
                row.addWidget(switch)
            case Folder():
                control = self._folder(item, row)
            case Act():
                control = act = introduce(
                    button(tr(item.button), role="plain"), description=tr(item.explanation), id=item.name
                )
                act.setAutoDefault(False)
                act.clicked.connect(lambda _checked: self.act_requested.emit(item.name))
                row.addWidget(act)
        if not isinstance(item, Folder):
            row.addStretch(1)
        self.controls[item.name] = control
        return row

    def _folder(self, item: Folder, row: QHBoxLayout) -> QLineEdit:
        """Shows the path on its own line, so that it is readable at any text size."""
        shown = introduce(QLineEdit(readOnly=True), tr(item.label), tr(item.explanation), id=item.name)
        choose = button(tr("Choose…"), tr("Choose the {folder}", folder=tr(item.label).lower()), role="plain")
        usual = button(tr("Default"), tr("Use the default {folder}", folder=tr(item.label).lower()), role="plain")
        for widget in (choose, usual):
            widget.setAutoDefault(False)
        choose.clicked.connect(functools.partial(self._choose_folder, item))
        usual.clicked.connect(functools.partial(self._take_folder, item.name, ""))
        self.controls[f"{item.name}_choose"], self.controls[f"{item.name}_default"] = choose, usual
        row.addLayout(column_of(shown, row_of(choose, usual, STRETCH, spacing=8), spacing=8), 1)

        def put(folder: str) -> None:
            shown.setText(folder or str(default_data_folder()))
            usual.setEnabled(bool(folder))

        self._puts[item.name] = put
        return shown

    def refresh(self) -> None:
        self._filling = True
        for name, put in self._puts.items():
            put(getattr(self._holder(name), name))
        self._filling = False

    def show_setting(self, name: str) -> None:
        """Shows a setting by its name and focuses it; an unknown one is ignored."""
        if name in self._places:
            self.sections.setCurrentRow(self._places[name])
            self.controls[name].setFocus()

    def say(self, name: str, text: str, *, is_error: bool = False) -> None:
        """Shows a remark under a setting; an empty text removes it."""
        remark = self._remarks[name]
        restyle(remark, "role", "fault" if is_error else "done")
        show_line(remark, text)
        remark.setAccessibleDescription(text)

    def _holder(self, name: str) -> Preferences | SettingsValues:
        return self._preferences if name in KEYS else self._values

    def _set(self, name: str, value: object) -> None:
        holder = self._holder(name)
        if self._filling or getattr(holder, name) == value:
            return
        setattr(holder, name, value)
        if isinstance(holder, Preferences):
            store.write_preference(self._settings, holder, name)
        if name == "data_folder":
            self.say(name, tr("Saved. Takes effect at the next start."))
        self.refresh()
        self.changed.emit(name)

    def _take_folder(self, name: str, folder: str, _checked: bool = False) -> None:
        try:
            if folder:
                ensure(Path(folder))
        except SafelightError as error:
            self.say(name, str(error), is_error=True)
            return
        self._set(name, folder)

    def _choose_folder(self, item: Folder, _checked: bool = False) -> None:
        control = self.controls[item.name]
        start = control.text() if isinstance(control, QLineEdit) else ""
        folder = self._ask_folder(self, tr("Choose the {folder}", folder=tr(item.label).lower()), start)
        if folder:
            self._take_folder(item.name, folder)

    @Slot()
    def accept(self) -> None:
        for name in self._remarks:
            if name != "data_folder":
                self.say(name, "")
        super().accept()
