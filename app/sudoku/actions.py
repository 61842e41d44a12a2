"""The actions of the Sudoku page with their keys. Each opens the page first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.context import SUDOKU, AppContext, Lazy
from app.design.action import Action, page_keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.sudoku.controller import SudokuController
    from engine.tasks.sudoku import Bin


def actions(_context: AppContext, page: Lazy[SudokuController]) -> list[Action]:
    section = tr("Sudoku")

    def shown(act: Callable[[SudokuController], object]) -> Callable[[], object]:
        """Returns a function that shows the page and does something with it."""

        def run() -> None:
            page().show()
            act(page())

        return run

    def new(bin: Bin) -> Callable[[], object]:
        return shown(lambda here: here.page.new_puzzle(bin))

    def free() -> str:
        return page.made.reason_to_wait() if page.made is not None else ""

    on_board = page_keys(
        SUDOKU,
        tr("On the board"),
        lambda: page().enter(),
        (tr("Go from cell to cell"), ("Left", "Right", "Up", "Down")),
        (tr("Write a digit, 1 to 9"), ("1", "9")),
        (tr("Clear the cell"), ("Delete", "Backspace")),
        (tr("Undo"), ("Ctrl+Z",)),
        (tr("Redo"), ("Ctrl+Y", "Ctrl+Shift+Z")),
        (tr("Copy the puzzle"), ("Ctrl+C",)),
        (tr("Paste a puzzle, or a picture of one"), ("Ctrl+V",)),
        (tr("Play the run"), ("Space",)),
    )
    return [
        *on_board,
        Action("sudoku-solve", tr("Solve the puzzle"), section, shown(lambda here: here.solve()), ("F5",), free),
        Action(
            "sudoku-picture",
            tr("Read a puzzle from a picture"),
            section,
            shown(lambda here: here.ask_picture()),
            (),
            free,
        ),
        Action("sudoku-easy", tr("New easy puzzle"), section, new("easy"), ("Alt+1",), free),
        Action("sudoku-medium", tr("New medium puzzle"), section, new("medium"), ("Alt+2",), free),
        Action("sudoku-hard", tr("New hard puzzle"), section, new("hard"), ("Alt+3",), free),
        Action(
            "sudoku-keep",
            tr("Keep the given digits: on or off"),
            section,
            shown(lambda here: here.page.column.keep.toggle()),
        ),
        Action(
            "sudoku-race",
            tr("Race two models on the puzzle"),
            section,
            shown(lambda here: here.race()),
            ("Shift+F5",),
            free,
        ),
    ]
