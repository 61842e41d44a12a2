"""The Sudoku page in the window, with a stand-in engine: its actions, from other pages."""

from __future__ import annotations

from collections.abc import Callable

from app.context import CHAT
from app.window.main_window import MainWindow
from engine import SUDOKU as MODEL

Open = Callable[..., MainWindow]


def test_every_action_has_a_name_and_goes_to_the_page(open_window: Open) -> None:
    window = open_window(MODEL)
    page = window.pages["sudoku"].page
    for bin, least, most in (("easy", 40, 50), ("medium", 30, 39), ("hard", 25, 29)):
        window.show_page(CHAT)
        assert window.actions_by_name.run(f"sudoku-{bin}") == ""
        assert page.isVisible()
        assert least <= page.puzzle.givens <= most
        assert page.check.kind == "one"
