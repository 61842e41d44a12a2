"""The named actions of the models page; actions on a listed model are buttons of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import AppContext, Lazy
from app.design.action import Action
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.models.controller import ModelsController


def actions(context: AppContext, _page: Lazy[ModelsController]) -> list[Action]:
    def loaded() -> str:
        return "" if context.model is not None else tr("No model is loaded")

    return [Action("unload", tr("Unload the model"), tr("Application"), context.slot.unload, enabled=loaded)]
