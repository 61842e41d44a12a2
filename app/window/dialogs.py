"""Opens the window's dialogs (settings, palette, shortcut sheet) and runs the actions of the settings' buttons."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QDir, QObject, QSettings, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QGridLayout, QLabel, QWidget

from app.bridge.background import Background
from app.context import CHAT, SERVER, AppContext
from app.design.action import Action, Actions
from app.design.controls import button, introduce, label
from app.design.fonts import set_text_percent
from app.design.layouts import STRETCH, column_of, row_of
from app.design.stylesheet import apply_theme, system_theme
from app.design.tokens import DARKROOM, PAPER, Theme
from app.library.library import KEPT_DAYS
from app.library.pictures import FOLDER
from app.settings import store
from app.settings.preferences import NUMBERS, SECTIONS, Preferences
from app.settings.values import SAMPLER, SEED
from app.system.folders import Folders, ensure
from app.system.i18n import size, tr
from app.system.timers import later
from app.window.sidebar.painting import shown_title
from engine import SafelightError
from engine.catalog import SMALL, SMALL_TITLE, installed

LIBRARY = "library*"  # the library's files, those of a damaged one, and what could not be saved
STEP_MS = 30  # further steps of the text size within this time are applied together: restyling all widgets takes longer
MAX_CHATS = 500  # of the latest conversations


def style(theme: Theme) -> str:
    """Returns the rules of the dialogs, for the window's style sheet."""
    return f"""
QListWidget#sections, QListWidget#sections[ring="true"] {{ background: {theme.surface}; padding: 8px; border: none; }}
QListWidget#sections::item {{
    min-height: 28px; padding: 2px 8px; border: 2px solid transparent; border-radius: 4px; color: {theme.ink};
}}
QListWidget#sections::item:selected {{ background: {theme.line}; color: {theme.ink}; }}
QListWidget#sections[ring="true"]::item:focus {{ border-color: {theme.focus}; }}
QDialog#preferences QCheckBox {{ padding-left: 0; }}
QDialog#preferences QLabel[role="done"] {{ font-size: 12px; color: {theme.ink}; }}
QDialog#preferences QLabel[role="fault"] {{ font-size: 12px; color: {theme.conflict}; }}
QDialog#preferences QLineEdit[readOnly="true"] {{ background: transparent; }}
QDialog#palette {{ background: {theme.surface_raised}; border: 1px solid {theme.line_strong}; }}
QDialog#palette QLineEdit {{ font-size: 16px; padding: 8px; }}
QDialog#palette QListView::item {{ padding: 0; }}
QDialog#shortcuts QLabel[role="key"] {{
    background: {theme.surface_raised}; border: 1px solid {theme.line_strong}; border-radius: 4px; padding: 2px 8px;
    font-size: 12px;
}}
QDialog#shortcuts QLabel[role="section"] {{ font-size: 14px; font-weight: 600; }}
"""


class Storage(QWidget):
    """Looks at the folders each time it is shown."""

    def __init__(self, folders: Folders) -> None:
        super().__init__()
        introduce(self, tr("What is kept"), id="storage")
        self._folders = folders
        self.sizes: dict[str, QLabel] = {}
        self._looking = Background(self, self._show)
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setColumnStretch(1, 1)
        names = (tr("Conversations"), tr("Pictures in them"), tr("Recorded runs"), tr("Downloaded models"))
        for row, (key, name) in enumerate(zip(("library", "pictures", "traces", "models"), names, strict=True)):
            self.sizes[key] = label("…")
            grid.addWidget(label(name), row, 0)
            grid.addWidget(self.sizes[key], row, 1)
        self.open = button(tr("Open the folder"), tr("Open the data folder"), role="plain", clicked=self._open)
        self.open.setAutoDefault(False)
        said = tr(
            "All of it is in the data folder. A deleted conversation is kept for {days} days under Recently deleted, "
            "with its recorded runs; then both are erased. The inspector's start page deletes runs at once.",
            days=KEPT_DAYS,
        )
        heading, buttons = label(tr("What is kept"), "setting"), row_of(self.open, STRETCH)
        self.problem = label("", "fault", wrap=True)
        self.setLayout(column_of(heading, grid, buttons, self.problem, label(said, "caption", wrap=True), spacing=8))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        folders = self._folders
        self._looking.ask(lambda: sizes_of(folders))

    @Slot(object)
    def _show(self, sizes: dict[str, int]) -> None:
        for key, count in sizes.items():
            self.sizes[key].setText(size(count))

    @Slot()
    def _open(self) -> None:
        try:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(ensure(self._folders.data))))
        except SafelightError as error:
            self.problem.setText(str(error))


def sizes_of(folders: Folders) -> dict[str, int]:
    """Returns the bytes of what is kept. Links are not followed."""
    return {
        "library": sum(map(_size, folders.data.glob(LIBRARY))),
        "pictures": sum(map(_size, _files(folders.data / FOLDER))),
        "traces": sum(map(_size, _files(folders.traces))),
        "models": sum(map(_size, _files(folders.models))),
    }


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def _size(path: Path) -> int:
    with suppress(OSError):  # it was just removed
        status = path.lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


class Appearance(QObject):
    """Applies theme and text size at once and after each change."""

    def __init__(self, settings: QSettings, preferences: Preferences) -> None:
        """``preferences`` is modified in place."""
        super().__init__()
        self._settings, self.preferences = settings, preferences
        self._stepping = later(self, self._dress, STEP_MS)
        QApplication.styleHints().colorSchemeChanged.connect(self._dress)
        self._dress()

    @property
    def theme(self) -> Theme:
        return {"darkroom": DARKROOM, "paper": PAPER}.get(self.preferences.theme) or system_theme()

    @Slot(str)
    def choose(self, choice: str) -> None:
        """Chooses ``darkroom``, ``paper``, or ``system``."""
        self.preferences.theme = choice
        store.write_preference(self._settings, self.preferences, "theme")
        self._dress()

    @Slot(int)
    def set_text_percent(self, percent: int) -> None:
        """Sets the size of all text in percent; 100 is the unscaled type scale."""
        self._note_text_percent(percent)
        self._dress()

    def _note_text_percent(self, percent: int) -> None:
        self.preferences.text_percent = percent
        store.write_preference(self._settings, self.preferences, "text_percent")

    def step_text(self, percent: int) -> None:
        """Changes the size of all text by so many percent of its normal size; quick steps are applied together."""
        size = NUMBERS["text_percent"]
        low, high = int(size.low), int(size.high)
        self._note_text_percent(max(low, min(high, self.preferences.text_percent + percent)))
        if not self._stepping.isActive():
            self._stepping.start()

    @Slot()
    def choose_next(self) -> None:
        """Chooses the theme that is not in use: dark for light, light for dark."""
        self.choose("paper" if self.theme is DARKROOM else "darkroom")

    @Slot()
    def _dress(self) -> None:
        set_text_percent(self.preferences.text_percent)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            apply_theme(app, self.theme)


class Dialogs(QObject):
    """Opens dialogs over ``parent``; each is deleted when closed. Their modules are imported on first use.

    Emits the name of a sampler setting that was chosen in the palette.
    """

    sampler_asked = Signal(str)

    def __init__(self, context: AppContext, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self._context, self._appearance, self._parent = context, appearance, parent
        self.actions = Actions()  # listed by the palette and the sheet
        self.page = CHAT  # name of the shown page

    @Slot()
    def open_folder(self) -> None:
        """Loads a model from a folder that the user chooses."""
        folder = QFileDialog.getExistingDirectory(self._parent, tr("Open a model folder"), QDir.homePath())
        if folder:
            self._context.load(folder)

    @Slot()
    def open_settings(self) -> None:
        """Opens the settings; changes take effect at once."""
        self.open_setting("")

    def open_setting(self, name: str) -> None:
        from app.settings.dialog import SettingsDialog  # not needed at start
        from app.tools.panel import ToolsPanel

        context = self._context
        tools = ToolsPanel(context.tools, lambda: context.model)
        context.slot.changed.connect(tools.refresh)
        further = [(tr("Tools"), tools), (tr("Storage and privacy"), Storage(context.folders))]
        opened = SettingsDialog(context.preferences, context.values, context.settings, self._parent, further=further)
        opened.changed.connect(self._preference_changed)
        opened.act_requested.connect(lambda name: opened.say(name, self.act(name, opened)))
        opened.finished.connect(opened.deleteLater)
        opened.open()
        opened.show_setting(name)

    @Slot()
    def open_palette(self) -> None:
        """Opens the palette, which finds actions, conversations, models and settings by name."""
        from app.window.palette import Palette  # not needed at start

        others = finds(self._context, self.open_setting, self.sampler_asked.emit)
        opened = Palette(self.actions, self._parent, others)
        opened.finished.connect(opened.deleteLater)
        opened.ask()

    @Slot()
    def open_shortcuts(self) -> None:
        """Shows the keys of the current page and those that work on every page."""
        from app.window.palette import ShortcutSheet  # not needed at start

        opened = ShortcutSheet(self.actions, self.page, self._parent, offered=("guide",))
        opened.finished.connect(opened.deleteLater)
        opened.open()

    @Slot(str)
    def _preference_changed(self, name: str) -> None:
        context = self._context
        match name:
            case "theme":
                self._appearance.choose(context.preferences.theme)
            case "text_percent":
                self._appearance.set_text_percent(context.preferences.text_percent)
            case "offline":
                context.set_offline(context.preferences.offline)
            case "threads":
                context.backend.threads = context.preferences.threads
            case _ if hasattr(context.values, name):
                context.apply_values()

    def act(self, name: str, dialog: QDialog | None = None) -> str:
        """Runs the action of a settings button in ``dialog``; returns the result in a sentence."""
        match name:
            case "open_logs":
                try:
                    folder = ensure(self._context.folders.logs)
                except SafelightError as error:
                    return str(error)
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
                return tr("Opened {folder}", folder=folder)
            case "show_server":
                if dialog is not None:
                    dialog.accept()
                self._context.navigator.show_page(SERVER)
            case "show_shortcuts":
                self.open_shortcuts()
        return ""


def finds(
    context: AppContext, open_setting: Callable[[str], object], open_sampler: Callable[[str], object]
) -> list[Action]:
    """Returns an action for each entry; the two callables take the name of a setting."""
    shown = context.values.present_decoding.settings
    return [*_chats(context), *_models(context), *_settings(open_setting, open_sampler, shown)]


def _chats(context: AppContext) -> Iterator[Action]:
    try:
        summaries = context.library.summaries("")
    except SafelightError:
        return  # the conversation list shows the error
    for summary in summaries[:MAX_CHATS]:

        def go(conversation: int = summary.id) -> None:
            context.session.open(conversation)
            context.navigator.show_page(CHAT)

        yield Action(f"chat {summary.id}", shown_title(summary), tr("Chat"), go)


def _models(context: AppContext) -> Iterator[Action]:
    known = {SMALL: tr(SMALL_TITLE), **{model.id: model.title for model in installed()}, **dict(context.slot.models)}
    for path_or_id, title in known.items():
        yield Action(f"model {path_or_id}", title, tr("Load the model"), functools.partial(context.load, path_or_id))


def _settings(
    open_setting: Callable[[str], object], open_sampler: Callable[[str], object], shown: frozenset[str]
) -> Iterator[Action]:
    for section in SECTIONS:
        for item in section.items:
            go = functools.partial(open_setting, item.name)
            yield Action(
                f"setting {item.name}", tr(item.label), tr("Settings, {section}", section=tr(section.title)), go
            )
    yield Action("setting storage", tr("What is kept"), tr("Settings"), functools.partial(open_setting, "storage"))
    yield Action("setting tools", tr("Tools"), tr("Settings"), functools.partial(open_setting, "tools"))
    for setting in (*(setting for name, setting in SAMPLER.items() if name in shown), SEED):
        run = functools.partial(open_sampler, setting.name)
        yield Action(f"sampler {setting.name}", tr(setting.label), tr("Sampler"), run)
