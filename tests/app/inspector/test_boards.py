"""A Sudoku in the inspector: the canvas and both sides of a comparison are boards, linked with all other views."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt

from app.canvas.grid_view import GridView
from app.design import motion
from app.inspector.compare import view as compare_view
from app.inspector.page import InspectorPage
from app.player.player import NOTHING
from engine import Recording, gallery, open_trace
from tests.app.inspector.made_up import Recorded, run


def recorded(name: str) -> Recording:
    """A run of the gallery."""
    return open_trace(next(one.path for one in gallery() if one.path.stem == name))


@pytest.fixture
def page(qtbot, monkeypatch) -> InspectorPage:
    monkeypatch.setattr(compare_view, "SLICE_SECONDS", 60.0)  # all at once
    motion.set_reduced(True)
    page = InspectorPage()
    qtbot.addWidget(page)
    page.resize(1280, 800)
    page.show()
    page.open_trace(recorded("sudoku-stuck"), 14)
    return page


def middle(view: GridView, cell: int) -> QPoint:
    rect = view.grid.rect_of(cell)
    return QPoint(rect.x + rect.width // 2, rect.y + rect.height // 2)


def test_the_canvas_of_a_sudoku_is_a_board_and_its_tokens_are_a_click_away(page, qtbot):
    canvas = page.canvas
    assert (canvas.board.isVisible(), canvas.view.isVisible()) == (True, False)
    assert canvas.board.frame.steps == 14
    assert [made.isChecked() for made in (canvas.as_board, canvas.calm, canvas.raw)] == [True, False, False]
    qtbot.mouseClick(canvas.raw, Qt.MouseButton.LeftButton)
    assert (canvas.board.isVisible(), canvas.view.isVisible(), canvas.view._calm) == (False, True, False)
    assert [made.isChecked() for made in (canvas.as_board, canvas.calm, canvas.raw)] == [False, False, True]
    page.player.go(20)
    assert not canvas.board.isVisible()  # it stays as it was chosen
    qtbot.mouseClick(canvas.as_board, Qt.MouseButton.LeftButton)
    assert canvas.board.isVisible()
    assert canvas.board.frame.steps == 20
    page.open_trace(Recorded(run()))  # no Sudoku
    assert (canvas.board.isVisible(), canvas.as_board.isVisible(), canvas.view.isVisible()) == (False, False, True)


def test_a_cell_is_selected_and_lit_in_all_views(page, qtbot):
    player, board = page.player, page.canvas.board
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=middle(board, 10))
    assert (player.selection, page.canvas.view.selected) == (11, 11)
    player.select(9)  # a line break has no cell, and stays selected everywhere else
    assert (board.selected, page.canvas.view.selected, player.selection) == (NOTHING, 9, 9)
    player.point(22)
    assert board.hovered == 20
    board.setFocus()
    player.select(11)
    qtbot.keyClick(board, Qt.Key.Key_Down)
    assert player.selection == 21
    place = player.place
    qtbot.keyClick(board, Qt.Key.Key_Right)  # the arrows are the page's
    assert (player.place, player.selection) == (place + 1, 21)
    qtbot.keyClick(board, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert player.selection == 22
    page.canvas.set_layer("entropy")
    assert page.canvas.pane.legend.words[0].startswith("entropy, 0 to ")


def test_both_sides_of_a_comparison_are_boards(page, qtbot):
    page.show_view(1)
    compare = page.compare
    compare.set_other(recorded("sudoku-pinned"))
    sides = (compare.left, compare.right)
    assert all(side.board.isVisible() and not side.view.isVisible() for side in sides)
    assert compare.right.board.frame.verdict.kind == "solved"
    assert compare.left.board.marks.any()
    assert compare.left.board.marks.tolist() == compare.left.view.marks.tolist()
    plain = compare.left.board.grab().toImage()
    compare.left.board.set_marks(compare.left.board.marks & False)
    assert compare.left.board.grab().toImage() != plain
    qtbot.mouseClick(compare.right.board, Qt.MouseButton.LeftButton, pos=middle(compare.right.board, 80))
    assert (compare.left.board.selected, page.player.selection) == (80, 88)
    qtbot.mouseClick(compare.as_board, Qt.MouseButton.LeftButton)
    assert all(side.view.isVisible() and not side.board.isVisible() for side in sides)
    assert compare.right.view.selected == 88
