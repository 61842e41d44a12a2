"""The Sudoku page with a stand-in engine and no window."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext, Lazy
from app.design.action import Actions
from app.sudoku.actions import actions
from app.sudoku.controller import SudokuController, build
from app.sudoku.page import SudokuPage
from engine import SUDOKU as MODEL
from tests.app.sudoku.solver_engine import SolverEngine

RUN_MS = 60_000


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


class Opened(NamedTuple):
    """The Sudoku page by itself."""

    context: AppContext
    controller: SudokuController
    actions: Actions
    said: list[str]

    @property
    def page(self) -> SudokuPage:
        return self.controller.page


Open = Callable[..., Opened]


@pytest.fixture
def open_sudoku(qtbot: QtBot, open_context: Callable[..., AppContext]) -> Open:
    """Opens the page at full speed."""

    def open_one(model: str | None = MODEL, seed: int | None = None) -> Opened:
        context = open_context(model, seed)
        said: list[str] = []
        context.said.connect(lambda message, _details: said.append(message))
        page = Lazy(lambda: build(context))
        qtbot.addWidget(page().widget)
        page().widget.resize(1280, 720)
        page().widget.show()
        return Opened(context, page(), Actions(actions(context, page)), said)

    return open_one


def idle(qtbot: QtBot, opened: Opened) -> None:
    qtbot.waitUntil(lambda: not opened.controller.is_busy, timeout=RUN_MS)
