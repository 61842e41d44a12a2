"""Opens the window's dialogs: settings, palette, shortcut sheet; runs the acts of the settings' buttons."""

from __future__ import annotations

from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from app.context import CHAT, SERVER, AppContext
from app.design import themes
from app.design.action import Actions
from app.design.fonts import sized
from app.design.stylesheet import Rules
from app.settings.preferences import listed
from app.system.folders import ensure
from app.system.i18n import tr
from app.window.appearance import Appearance
from engine import SafelightError


class Dialogs(QObject):
    """Each opens over ``parent`` and is deleted when closed. Their modules are imported when they are asked for.

    Emits a sampler setting's name where one was chosen.
    """

    sampler_asked = Signal(str)

    def __init__(self, context: AppContext, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self._context, self._appearance, self._parent = context, appearance, parent
        self.actions = Actions()  # listed by the palette and the sheet
        self.page = CHAT  # on show, by its name

    @Slot()
    def open_folder(self) -> None:
        """Load a model from a folder of the user's choice."""
        folder = QFileDialog.getExistingDirectory(self._parent, tr("Open a model folder"))
        if folder:
            self._context.load(folder)

    @Slot()
    def open_settings(self) -> None:
        """Open the settings; changes take effect at once."""
        self.open_setting("")

    def open_setting(self, name: str) -> None:
        """Open the settings at one of them."""
        from app.settings.dialog import SettingsDialog, style  # a start does without

        context = self._context
        opened = SettingsDialog(context.preferences, context.values, context.settings, self._parent)
        opened.changed.connect(self._preference_changed)
        opened.act_requested.connect(lambda name: opened.say(name, self.act(name, opened)))
        self._dress(opened, style)
        opened.open()
        opened.show_setting(name)

    @Slot()
    def open_palette(self) -> None:
        """Find an action, a conversation, a model or a setting by its name."""
        from app.window.finds import finds  # a start does without
        from app.window.palette import Palette, style

        others = finds(self._context, self.open_setting, self.sampler_asked.emit)
        opened = Palette(self.actions, self._parent, others)
        self._dress(opened, style)
        opened.ask()

    @Slot()
    def open_shortcuts(self) -> None:
        """Show the keys of the page on show, and those that work anywhere."""
        from app.window.shortcuts import ShortcutSheet, style  # a start does without

        opened = ShortcutSheet(self.actions, self.page, self._parent)
        self._dress(opened, style)
        opened.open()

    def _dress(self, dialog: QDialog, rules: Rules) -> None:
        """Give a dialog its rules, in each theme that is chosen until it is closed."""

        def dress() -> None:
            dialog.setStyleSheet(sized(rules(themes.current())))

        dress()
        themes.changed.connect(dress)
        dialog.destroyed.connect(lambda: themes.changed.disconnect(dress))
        dialog.finished.connect(dialog.deleteLater)

    # ---------------------------------------------------------------- the settings

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
        """Run the act of a settings button in ``dialog``; returns the result in a sentence."""
        match name:
            case "open_logs":
                try:
                    folder = ensure(self._context.folders.logs)
                except SafelightError as error:
                    return str(error)
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
                return tr("Opened {folder}", folder=folder)
            case "copy_diagnostics":
                QGuiApplication.clipboard().setText(self.diagnostics())
                return tr("Copied")
            case "show_server":
                if dialog is not None:
                    dialog.accept()
                self._context.show_page(SERVER)
            case "show_shortcuts":
                self.open_shortcuts()
        return ""

    def diagnostics(self) -> str:
        """The report for the clipboard."""
        from app.system import diagnostics  # what reads versions of packages takes long to import

        context, facts = self._context, diagnostics.Facts()
        model = context.model
        if model is not None:
            facts = diagnostics.Facts(model.title, model.device, model.kernels, model.device_reason)
        return diagnostics.report(listed(context.preferences, context.values), context.folders, facts)
