"""The actions on conversations, with names and keys."""

from __future__ import annotations

from app.context import AppContext
from app.design.action import Action
from app.system.i18n import tr
from app.window.sidebar.controller import SidebarController
from app.window.topbar import TopBar


def actions(context: AppContext, controller: SidebarController, topbar: TopBar) -> list[Action]:
    """Returns the actions on the shown conversation and on the list."""
    section, session = tr("Conversations"), context.session

    def stored() -> str:
        return "" if session.conversation is not None else tr("This conversation is still empty")

    def export(form: str) -> None:
        if session.conversation is not None:
            controller.export(session.conversation, form)

    def search() -> None:
        topbar.sidebar.setChecked(True)
        controller.sidebar.focus_search()

    return [
        Action("new", tr("New chat"), section, controller.sidebar.new_asked.emit, ("Ctrl+N",)),
        Action("search", tr("Search the conversations"), section, search, ("Ctrl+Shift+F",)),
        Action("export-markdown", tr("Export as Markdown"), section, lambda: export("markdown"), enabled=stored),
        Action("export-html", tr("Export as a web page"), section, lambda: export("html"), enabled=stored),
        Action("export-json", tr("Export as JSON"), section, lambda: export("json"), enabled=stored),
        Action("import", tr("Import a conversation"), section, controller.bring_in),
    ]
