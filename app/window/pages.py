"""The window's pages, each created when it is first needed.

``PAGES`` is the only list: top bar, place bar, keys and actions are derived from it. To add a page, write
``app/NAME/controller.py`` with ``build(context)``, which returns a ``Page``, and ``app/NAME/actions.py`` with
``actions(context, page)``, and add its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtWidgets import QStackedWidget

from app.context import (
    CHAT,
    DECISIONS,
    INSPECTOR,
    MODELS,
    RACE,
    SERVER,
    SUDOKU,
    AppContext,
    Lazy,
    Page,
)
from app.design.action import Action
from app.session.model_slot import ModelChoice
from engine import Recording

if TYPE_CHECKING:
    from app.chat.controller import ChatController
    from app.inspector.controller import InspectorController
    from app.models.controller import ModelsController
    from app.race.controller import RaceController


@dataclass(frozen=True)
class PageEntry:
    """A page's entry in the list. Texts are in English; they are shown through ``tr``.

    Args:
        name: the page's name, also of its folder in ``app`` and of the action that shows it.
        title: its name in the window.
        purpose: a phrase on what the page is for.
        going: the action's title.
        key: the shortcut that shows the page.
        place: the button of the top bar that it belongs to; empty for what stands behind the model list.
    """

    name: str
    title: str
    purpose: str
    going: str
    key: str
    place: str = ""

    def build(self, context: AppContext) -> Page:
        """Creates the page. This imports its module with all its views, which is not needed at start."""
        made: Page = import_module(f"app.{self.name}.controller").build(context)
        return made

    def actions(self, context: AppContext, page: Lazy[Page]) -> list[Action]:
        """Returns the page's actions, even before the page is created."""
        actions: list[Action] = import_module(f"app.{self.name}.actions").actions(context, page)
        return actions


PAGES = (
    PageEntry(CHAT, "Chat", "Talk to a model", "Go to the chat", "Ctrl+1", "Chat"),
    PageEntry(INSPECTOR, "Inspector", "See how an answer was written", "Go to the inspector", "Ctrl+2", "Inspector"),
    PageEntry(SUDOKU, "Sudoku", "Watch a model solve a puzzle", "Go to Sudoku", "Ctrl+3", "Sudoku"),
    PageEntry(RACE, "Race", "See which decoding is faster", "Go to the race", "Ctrl+4", "Lab"),
    PageEntry(DECISIONS, "Decisions", "Get answers with probabilities", "Go to the decisions", "Ctrl+5", "Lab"),
    PageEntry(MODELS, "Models", "Download, convert and load models", "Go to the models", "Ctrl+6"),
    PageEntry(SERVER, "Server", "Let other programs use the model", "Go to the server", "Ctrl+7"),
)
"""All pages; those of one place stand together, and its button shows the first of them."""
BY_NAME = {entry.name: entry for entry in PAGES}
PLACES = tuple({entry.place: entry for entry in reversed(PAGES) if entry.place}.values())[::-1]
"""The first page of each place of the top bar."""


class Pages:
    """Creates pages when they are first asked for by name, as an index. ``stack`` shows the current one.

    It is the context's ``Navigator``; ``show_page`` shows a page with its frame.
    """

    def __init__(self, context: AppContext, show_page: Callable[[str], None]) -> None:
        context.navigator, self.show_page = self, show_page
        self.stack = QStackedWidget()
        self.by_name = {entry.name: Lazy(partial(self._make, entry, context)) for entry in PAGES}
        typed = cast("dict[str, Lazy[Any]]", self.by_name)  # for the pages whose specific methods the window uses
        self.chat: Lazy[ChatController] = typed[CHAT]
        self.inspector: Lazy[InspectorController] = typed[INSPECTOR]
        self.models: Lazy[ModelsController] = typed[MODELS]
        self.race: Lazy[RaceController] = typed[RACE]

    def _make(self, entry: PageEntry, context: AppContext) -> Page:
        page = entry.build(context)
        self.stack.addWidget(page.widget)
        return page

    def __getitem__(self, name: str) -> Page:
        return self.by_name[name]()

    @property
    def current(self) -> Page | None:
        """Returns the current page; None before the first is created."""
        made = (page.made for page in self.by_name.values())
        return next((page for page in made if page is not None and page.widget is self.stack.currentWidget()), None)

    def show(self, name: str) -> None:
        """Shows a page, which is created if it is shown first."""
        page = self[name]
        self.stack.setCurrentWidget(page.widget)
        page.enter()

    def inspect(self, run: Recording | Path, place: int = -1) -> None:
        self.inspector().inspect(run, place)

    def compare(self, run: Recording, other: Recording) -> None:
        self.inspector().compare_runs(run, other)

    def export(self, run: Recording) -> None:
        self.inspector().export(run)

    def start_guide(self) -> None:
        self.inspector().guide().start()

    def start_race(self, prompt: str, models: Sequence[ModelChoice]) -> None:
        self.race().race_on(prompt, models)
