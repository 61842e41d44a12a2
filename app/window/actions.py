"""Collects the app's named actions and their keys: each page's own list, and those of the window."""

from __future__ import annotations

import functools
from collections.abc import Callable

from app.context import CHAT, AppContext
from app.design.action import Action, Actions
from app.system.i18n import tr
from app.window.dialogs import Appearance, Dialogs
from app.window.pages import PAGES, Pages
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
    """Returns every action, by section: the source of the shortcuts, their sheet and the command palette.

    The pages' actions come before the window's; a page's action may also be in the window's last section.
    """
    of_pages = [action for entry in PAGES for action in entry.actions(context, pages.by_name[entry.name])]
    application = _application(context, topbar, dialogs, close)
    last = application[0].section
    return Actions(
        [
            *_conversations(context, conversations, topbar),
            *(action for action in of_pages if action.section != last),
            *_view(context, topbar, appearance),
            *(action for action in of_pages if action.section == last),
            *application,
        ]
    )


def _view(context: AppContext, topbar: TopBar, appearance: Appearance) -> list[Action]:
    section = tr("View")

    def switch_conversations() -> None:
        """Opens or closes the list; from another page, goes to the chat and opens it."""
        if topbar.sidebar.isHidden():
            _show_conversations(context, topbar)
        else:
            topbar.sidebar.toggle()

    goings = [
        Action(
            entry.name,
            tr(entry.going),
            section,
            functools.partial(context.navigator.show_page, entry.name),
            (entry.key,),
        )
        for entry in PAGES
    ]
    return [
        *goings,
        Action("sidebar", tr("Show or hide the conversations"), section, switch_conversations, ("Ctrl+B",)),
        Action("sampler", tr("Show or hide the sampler"), section, topbar.strip.toggle, ("Ctrl+Shift+S",)),
        Action("theme", tr("Switch the theme: Darkroom or Paper"), section, appearance.choose_next, ("Ctrl+T",)),
        Action("larger", tr("Larger text"), section, lambda: appearance.step_text(10), ("Ctrl++", "Ctrl+=")),
        Action("smaller", tr("Smaller text"), section, lambda: appearance.step_text(-10), ("Ctrl+-",)),
    ]


def _show_conversations(context: AppContext, topbar: TopBar) -> None:
    context.navigator.show_page(CHAT)
    topbar.sidebar.setChecked(True)


def _application(context: AppContext, topbar: TopBar, dialogs: Dialogs, close: Callable[[], object]) -> list[Action]:
    section = tr("Application")

    def offline() -> None:
        context.set_offline(not context.preferences.offline)

    return [
        Action("model", tr("Choose a model"), section, topbar.open_chooser, ("Ctrl+M",)),
        Action("folder", tr("Open a model folder"), section, dialogs.open_folder, ("Ctrl+O",)),
        Action("offline", tr("Turn offline on or off"), section, offline),
        Action("settings", tr("Open the settings"), section, dialogs.open_settings, ("Ctrl+,",)),
        Action("palette", tr("Find an action"), section, dialogs.open_palette, _PALETTE_KEYS, in_palette=False),
        Action("shortcuts", tr("Show the shortcuts"), section, dialogs.open_shortcuts, ("?", "F1")),
        Action("quit", tr("Quit"), section, close, ("Ctrl+Q",)),
    ]


def _conversations(context: AppContext, controller: SidebarController, topbar: TopBar) -> list[Action]:
    section, session = tr("Conversations"), context.session

    def stored() -> str:
        return "" if session.conversation is not None else tr("This conversation is still empty")

    def export(form: str) -> None:
        if session.conversation is not None:
            controller.export(session.conversation, form)

    def search() -> None:
        _show_conversations(context, topbar)
        controller.sidebar.focus_search()

    def show_deleted() -> None:
        _show_conversations(context, topbar)
        controller.sidebar.show_deleted()

    def deleted() -> str:
        return "" if controller.sidebar.deleted.list.count() else tr("No conversation was deleted lately")

    return [
        Action("new", tr("New chat"), section, controller.sidebar.new_asked.emit, ("Ctrl+N",)),
        Action("search", tr("Search the conversations"), section, search, ("Ctrl+Shift+F",)),
        Action("deleted", tr("Show the recently deleted conversations"), section, show_deleted, enabled=deleted),
        Action("export-markdown", tr("Export as Markdown"), section, lambda: export("markdown"), enabled=stored),
        Action("export-json", tr("Export as JSON"), section, lambda: export("json"), enabled=stored),
        Action("import", tr("Import a conversation"), section, controller.bring_in),
    ]
