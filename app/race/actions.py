"""The actions of the Race page with their keys. Each opens the page first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import RACE, AppContext, Lazy
from app.design.action import Action, page_keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.race.controller import RaceController


def actions(_context: AppContext, page: Lazy[RaceController]) -> list[Action]:
    section = tr("Race")

    def race() -> None:
        page().show()
        page().race()

    def free() -> str:
        return page.made.reason_to_wait() if page.made is not None else ""

    on_page = page_keys(
        RACE,
        tr("On the page"),
        lambda: page().enter(),
        (tr("Run all lanes"), ("Return",)),
        (tr("Replay the race"), ("Space",)),
        (tr("Previous or next step of any lane"), ("Left", "Right")),
    )
    return [*on_page, Action("race-start", tr("Start the race"), section, race, ("Ctrl+F5",), free)]
