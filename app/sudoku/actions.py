"""The actions of the Sudoku page with their keys. Each opens the page first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import SUDOKU, AppContext, Lazy
from app.design.action import Action, page_keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.sudoku.controller import SudokuController
    from engine.tasks.sudoku import Bin


def actions(_context: AppContext, page: Lazy[SudokuController]) -> list[Action]:
    """Returns the actions for puzzles, contenders and the scoreboard."""
    section = tr("Sudoku")

    def solve() -> None:
        page().show("one")
        page().solve()

    def both() -> None:
        page().show("beside")
        page().solve_both()

    def picture() -> None:
        page().show("one")
        page().ask_picture()

    def fresh(bin: Bin) -> None:
        page().show("one")
        page().page.one.new_puzzle(bin)

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
        (tr("Play the run under it"), ("Space",)),
    )
    return [
        *on_board,
        Action("sudoku-solve", tr("Solve the puzzle"), section, solve, ("F5",), free),
        Action("sudoku-picture", tr("Read a puzzle from a picture"), section, picture, (), free),
        Action("sudoku-easy", tr("New easy puzzle"), section, lambda: fresh("easy"), ("Alt+1",), free),
        Action("sudoku-medium", tr("New medium puzzle"), section, lambda: fresh("medium"), ("Alt+2",), free),
        Action("sudoku-hard", tr("New hard puzzle"), section, lambda: fresh("hard"), ("Alt+3",), free),
        Action("sudoku-clamp", tr("Clamp the givens, or no longer"), section, lambda: page().toggle_clamp()),
        Action("sudoku-beside", tr("Two models side by side"), section, lambda: page().show("beside")),
        Action("sudoku-both", tr("Solve the puzzle side by side"), section, both, ("Shift+F5",), free),
        Action("sudoku-scores", tr("Sudoku scoreboard"), section, lambda: page().show("scores")),
    ]
