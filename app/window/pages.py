"""The window's pages, each made when it is first asked for, so that a start brings in no more than it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QStackedWidget

import app.chat.controller
import app.models.controller
from app.context import CHAT, INSPECTOR, MODELS, SUDOKU, AppContext, Lazy, Page
from engine import Recording

if TYPE_CHECKING:
    from app.inspector.controller import InspectorController
    from app.sudoku.controller import SudokuController

P = TypeVar("P", bound=Page)


class Pages(QObject):
    """``stack`` shows the one on top. A page is asked for by its attribute, or by its name as an index."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.stack = QStackedWidget()
        self.chat = self._lazy(app.chat.controller.build)
        self.inspector = self._lazy(_inspector)
        self.sudoku = self._lazy(_sudoku)
        self.models = self._lazy(app.models.controller.build)
        self._by_name: dict[str, Lazy[Page]] = {
            CHAT: self.chat,
            INSPECTOR: self.inspector,
            SUDOKU: self.sudoku,
            MODELS: self.models,
        }
        context.inspect_asked.connect(self._inspect)

    def _lazy(self, build: Callable[[AppContext], P]) -> Lazy[P]:
        def make() -> P:
            page = build(self._context)
            self.stack.addWidget(page.widget)
            return page

        return Lazy(make)

    def __getitem__(self, name: str) -> Page:
        return self._by_name[name]()

    @property
    def current(self) -> Page | None:
        """The page on top; None before the first is made."""
        made = (page.made for page in self._by_name.values())
        return next((page for page in made if page is not None and page.widget is self.stack.currentWidget()), None)

    def show(self, name: str) -> None:
        """Bring a page on top."""
        page = self[name]
        self.stack.setCurrentWidget(page.widget)
        page.enter()

    @Slot(object, bool)
    def _inspect(self, run: Recording | Path, is_live: bool) -> None:
        self.inspector().inspect(run, is_live)


def _inspector(context: AppContext) -> InspectorController:
    from app.inspector.controller import build  # the page, which a start does without

    return build(context)


def _sudoku(context: AppContext) -> SudokuController:
    from app.sudoku.controller import build  # as above

    return build(context)
