"""What the models page can do, by name; what can be done with a model of its list has a button there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import AppContext, Lazy
from app.design.action import Action
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.models.controller import ModelsController


def actions(context: AppContext, _page: Lazy[ModelsController]) -> list[Action]:
    """About the model that is loaded."""

    def loaded() -> str:
        return "" if context.model is not None else tr("No model is loaded")

    return [Action("unload", tr("Unload the model"), tr("Application"), context.unload, enabled=loaded)]
