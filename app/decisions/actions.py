"""The actions of the Decisions page with their keys. Each opens the page first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import DECISIONS, AppContext, Lazy
from app.design.action import Action, page_keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.decisions.controller import DecisionsController


def actions(_context: AppContext, page: Lazy[DecisionsController]) -> list[Action]:
    section = tr("Decisions")

    def decide() -> None:
        page().show()
        page().decide()

    def free() -> str:
        return page.made.reason_to_wait() if page.made is not None else ""

    on_page = page_keys(DECISIONS, tr("On the page"), lambda: page().enter(), (tr("Ask the model"), ("Ctrl+Return",)))
    return [*on_page, Action("decide", tr("Decide"), section, decide, enabled=free)]
