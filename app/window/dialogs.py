"""Opens the window's dialogs (settings, palette, shortcut sheet) and runs the actions of the settings' buttons."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from PySide6.QtCore import QDir, QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from app.context import CHAT, SERVER, AppContext
from app.design import themes
from app.design.action import Action, Actions
from app.design.fonts import sized
from app.design.stylesheet import Rules
from app.settings.preferences import SECTIONS
from app.settings.spec import SAMPLER, SEED
from app.system.folders import ensure
from app.system.i18n import tr
from app.window.appearance import Appearance
from app.window.sidebar.rows import shown_title
from engine import SafelightError
from engine.catalog import SMALL, SMALL_TITLE, installed


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
        from app.settings.dialog import SettingsDialog, style  # not needed at start
        from app.tools.panel import ToolsPanel
        from app.window.storage import Storage

        context = self._context
        tools = ToolsPanel(context.tools, lambda: context.model)
        context.model_changed.connect(tools.refresh)
        further = [(tr("Tools"), tools), (tr("Storage and privacy"), Storage(context.folders))]
        opened = SettingsDialog(context.preferences, context.values, context.settings, self._parent, further=further)
        opened.changed.connect(self._preference_changed)
        opened.act_requested.connect(lambda name: opened.say(name, self.act(name, opened)))
        self._dress(opened, style)
        opened.open()
        opened.show_setting(name)

    @Slot()
    def open_palette(self) -> None:
        """Opens the palette, which finds actions, conversations, models and settings by name."""
        from app.window.dialogs import finds  # not needed at start
        from app.window.palette import Palette, style

        others = finds(self._context, self.open_setting, self.sampler_asked.emit)
        opened = Palette(self.actions, self._parent, others)
        self._dress(opened, style)
        opened.ask()

    @Slot()
    def open_shortcuts(self) -> None:
        """Shows the keys of the current page and those that work on every page."""
        from app.window.shortcuts import ShortcutSheet, style  # not needed at start

        opened = ShortcutSheet(self.actions, self.page, self._parent, offered=("guide",))
        self._dress(opened, style)
        opened.open()

    def _dress(self, dialog: QDialog, rules: Rules) -> None:
        """Applies a dialog's rules now and after each change of the theme, until it is closed."""

        def dress() -> None:
            dialog.setStyleSheet(sized(rules(themes.current())))

        def leave() -> None:
            with contextlib.suppress(RuntimeError):  # the themes are gone first where the program ends
                themes.changed.disconnect(dress)

        dress()
        themes.changed.connect(dress)
        dialog.destroyed.connect(leave)
        dialog.finished.connect(dialog.deleteLater)

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
                self._context.show_page(SERVER)
            case "show_shortcuts":
                self.open_shortcuts()
        return ""


MOST_CHATS = 500  # of the latest conversations


def finds(
    context: AppContext, open_setting: Callable[[str], object], open_sampler: Callable[[str], object]
) -> list[Action]:
    """Returns an action for each entry; the two callables take the name of a setting."""
    shown = context.values.present_decoding.settings
    return [*_chats(context), *_models(context), *_settings(open_setting, open_sampler, shown)]


def _chats(context: AppContext) -> Iterator[Action]:
    try:
        found = context.library.summaries("")
    except SafelightError:
        return  # the conversation list shows the error
    for summary in found[:MOST_CHATS]:

        def go(conversation: int = summary.id) -> None:
            context.session.open(conversation)
            context.show_page(CHAT)

        yield Action(f"chat {summary.id}", shown_title(summary), tr("Chat"), go)


def _models(context: AppContext) -> Iterator[Action]:
    known = {SMALL: tr(SMALL_TITLE), **{model.id: model.title for model in installed()}, **dict(context.models)}
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
