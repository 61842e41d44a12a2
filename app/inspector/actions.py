"""The named actions of the inspector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import INSPECTOR, AppContext, Lazy
from app.design.action import Action
from app.inspector import keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.inspector.controller import InspectorController


def actions(context: AppContext, page: Lazy[InspectorController]) -> list[Action]:
    """Returns the actions of the inspector. The page itself binds the keys within a run."""

    def is_free() -> str:
        return tr("A run is in progress; Esc stops it.") if context.is_busy else ""

    return [
        Action("open-run", tr("Open a recorded run"), tr("Asking"), lambda: page().ask_file()),
        Action(
            "guide",
            tr("Take the guided minute"),
            tr("Application"),
            context.navigator.start_guide,
            ("Shift+F1",),
            is_free,
        ),
        *keys.actions(INSPECTOR, lambda action: page().page.run(action)),
    ]
