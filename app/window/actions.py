"""The app's actions with names and keys: each page's own list, and those of the window."""

from __future__ import annotations

from collections.abc import Callable

import app.chat.actions
import app.inspector.actions
import app.models.actions
import app.sudoku.actions
import app.window.sidebar.actions
from app.context import CHAT, INSPECTOR, MODELS, SUDOKU, AppContext
from app.design.action import Action, Actions
from app.system.i18n import tr
from app.window.appearance import Appearance
from app.window.dialogs import Dialogs
from app.window.pages import Pages
from app.window.sidebar.controller import SidebarController
from app.window.topbar import TopBar

_PALETTE_KEYS = ("Ctrl+K", "Ctrl+Shift+P")


def all_actions(
    context: AppContext,
    pages: Pages,
    conversations: SidebarController,
    topbar: TopBar,
    appearance: Appearance,
    dialogs: Dialogs,
    close: Callable[[], object],
) -> Actions:
    """All actions, by section: for the shortcuts, the shortcut sheet and the command palette."""
    return Actions(
        [
            *app.window.sidebar.actions.actions(context, conversations, topbar),
            *app.chat.actions.actions(context, pages.chat),
            *app.inspector.actions.actions(context, pages.inspector),
            *app.sudoku.actions.actions(context, pages.sudoku),
            *_view(context, topbar, appearance),
            *app.models.actions.actions(context, pages.models),
            *_application(context, topbar, dialogs, close),
        ]
    )


def _view(context: AppContext, topbar: TopBar, appearance: Appearance) -> list[Action]:
    section = tr("View")
    return [
        Action("chat", tr("Go to the chat"), section, lambda: context.show_page(CHAT), ("Ctrl+1",)),
        Action("inspector", tr("Go to the inspector"), section, lambda: context.show_page(INSPECTOR), ("Ctrl+2",)),
        Action("sudoku", tr("Go to Sudoku"), section, lambda: context.show_page(SUDOKU), ("Ctrl+3",)),
        Action("models", tr("Go to the models"), section, lambda: context.show_page(MODELS), ("Ctrl+4",)),
        Action("sidebar", tr("Show or hide the conversations"), section, topbar.sidebar.toggle, ("Ctrl+B",)),
        Action("sampler", tr("Show or hide the sampler's settings"), section, topbar.strip.toggle, ("Ctrl+Shift+S",)),
        Action("theme", tr("Take the next theme"), section, appearance.choose_next, ("Ctrl+T",)),
        Action("larger", tr("Larger text"), section, lambda: appearance.step_text(10), ("Ctrl++", "Ctrl+=")),
        Action("smaller", tr("Smaller text"), section, lambda: appearance.step_text(-10), ("Ctrl+-",)),
    ]


def _application(context: AppContext, topbar: TopBar, dialogs: Dialogs, close: Callable[[], object]) -> list[Action]:
    section = tr("Application")

    def offline() -> None:
        context.set_offline(not context.preferences.offline)

    return [
        Action("model", tr("Choose a model"), section, topbar.open_chooser, ("Ctrl+M",)),
        Action("folder", tr("Open a model folder"), section, dialogs.open_folder, ("Ctrl+O",)),
        Action("offline", tr("Switch offline on or off"), section, offline),
        Action("settings", tr("Open the settings"), section, dialogs.open_settings, ("Ctrl+,",)),
        Action("palette", tr("Find an action"), section, dialogs.open_palette, _PALETTE_KEYS, in_palette=False),
        Action("shortcuts", tr("Show the shortcuts"), section, dialogs.open_shortcuts, ("?", "F1")),
        Action("diagnostics", tr("Copy diagnostics"), section, lambda: dialogs.act("copy_diagnostics")),
        Action("quit", tr("Quit"), section, close, ("Ctrl+Q",)),
    ]
