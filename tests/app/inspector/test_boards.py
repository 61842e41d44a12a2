"""A Sudoku in the inspector: the canvas and both sides of a comparison are boards, linked with all other views."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from app.inspector.compare import view as compare_view
from app.inspector.page import InspectorPage
from tests.app.canvas.pointing import middle
from tests.app.inspector.made_up import Recorded, recorded, run

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def page(page: InspectorPage, monkeypatch: pytest.MonkeyPatch) -> InspectorPage:
    monkeypatch.setattr(compare_view, "SLICE_SECONDS", 60.0)  # all at once
    page.open_trace(recorded("sudoku-stuck"), 14)
    return page


def test_the_canvas_of_a_sudoku_is_a_board_and_its_tokens_are_a_click_away(page, qtbot):
    canvas = page.canvas
    assert (canvas.board.isVisible(), canvas.view.isVisible()) == (True, False)
    assert canvas.board.frame.steps == 14
    assert [made.isChecked() for made in (canvas.as_board, canvas.calm, canvas.raw)] == [True, False, False]
    qtbot.mouseClick(canvas.raw, LEFT)
    assert (canvas.board.isVisible(), canvas.view.isVisible(), canvas.view._calm) == (False, True, False)
    assert [made.isChecked() for made in (canvas.as_board, canvas.calm, canvas.raw)] == [False, False, True]
    page.player.go(20)
    assert not canvas.board.isVisible()  # it stays as it was chosen
    qtbot.mouseClick(canvas.as_board, LEFT)
    assert canvas.board.isVisible()
    assert canvas.board.frame.steps == 20
    page.open_trace(Recorded(run()))  # no Sudoku
    assert (canvas.board.isVisible(), canvas.as_board.isVisible(), canvas.view.isVisible()) == (False, False, True)


def test_a_cell_is_selected_and_lit_in_all_views(page, qtbot):
    player, board = page.player, page.canvas.board
    qtbot.mouseClick(board, LEFT, pos=middle(board, 10))
    assert (player.selection, page.canvas.view.selected) == (11, 11)
    player.select(9)  # a line break has no cell, and stays selected everywhere else
    assert (board.selected, page.canvas.view.selected, player.selection) == (-1, 9, 9)
    player.point(22)
    assert board.hovered == 20
    player.select(21)
    place = player.place
    qtbot.keyClick(board, Qt.Key.Key_Right)  # the arrows are the page's
    assert (player.place, player.selection) == (place + 1, 21)
    qtbot.keyClick(board, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert player.selection == 22
    page.canvas.set_layer("entropy")
    assert page.canvas.pane.legend.words[0].startswith("entropy, 0 to ")


def test_both_sides_of_a_comparison_are_boards_that_share_the_window(page, qtbot):
    page.show_view(1)
    compare = page.compare
    compare.set_other(recorded("sudoku-pinned"))
    sides = (compare.left, compare.right)
    assert all(side.board.isVisible() and not side.view.isVisible() for side in sides)
    assert compare.right.board.frame.verdict.kind == "solved"
    assert compare.left.board.marks.any()
    assert compare.left.board.marks.tolist() == compare.left.view.marks.tolist()
    marked = compare.left.board.grab().toImage()
    compare.left.board.set_marks(compare.left.board.marks & False)
    assert compare.left.board.grab().toImage() != marked
    page.resize(900, 570)  # the page of a window of 900 by 650 pixels
    qtbot.waitUntil(lambda: all(side.board.grid.side >= 250 for side in sides))
    assert not compare.legend.isVisible()
    page.resize(1280, 720)
    qtbot.waitUntil(lambda: all(side.board.grid.side >= 380 for side in sides))
    assert compare.legend.isVisible()
    qtbot.mouseClick(compare.right.board, LEFT, pos=middle(compare.right.board, 80))
    assert (compare.left.board.selected, page.player.selection) == (80, 88)
    qtbot.mouseClick(compare.as_board, LEFT)
    assert all(side.view.isVisible() and not side.board.isVisible() for side in sides)
    assert compare.right.view.selected == 88
