"""A board of a canvas: selected, pointed at and coloured by position, with its legend."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt

from app.board.legend import BoardPane
from app.board.view import BlockBoard
from app.board.words import cell_name
from app.canvas.heat import Heat
from app.design import motion
from app.design.tokens import DARKROOM, entropy_color
from app.state.sudoku.placing import Placed
from app.state.sudoku.solve_frame import POSITIONS
from tests.app.sudoku.scripted import LENGTH, PUZZLE, SOLVED, Script, piece


@pytest.fixture
def board(qtbot) -> BlockBoard:
    made = BlockBoard()
    qtbot.addWidget(made)
    motion.set_reduced(True)
    made.resize(480, 480)
    made.grab()
    made.place(Placed(PUZZLE, POSITIONS), piece)
    made.set_block(Script().step(SOLVED, {10}, {}).block)
    return made


def corner(board: BlockBoard, cell: int) -> QPoint:
    rect = board.grid.rect_of(cell)
    return QPoint(rect.x + 4, rect.y + rect.height - 6)


def test_cells_go_by_their_positions(board, qtbot):
    selected: list[int] = []
    board.positionSelected.connect(selected.append)
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=corner(board, 10))
    assert selected == [11]  # a line break stands between
    board.select_position(9)  # the line break itself
    assert (board.selected, selected) == (-1, [11])  # another view's selection is not answered
    board.select_position(POSITIONS[80])
    assert board.selected == 80
    board.setFocus()
    qtbot.keyClick(board, Qt.Key.Key_Left)
    assert selected == [11, POSITIONS[79]]
    qtbot.keyClick(board, Qt.Key.Key_Escape)
    assert selected[-1] == -1
    pointed: list[int] = []
    board.positionHovered.connect(pointed.append)
    board.point_at(12)
    assert (board.hovered, pointed) == (11, [])
    board.hovered = 20
    assert pointed == [22]


def test_a_figure_colours_the_cells(board):
    shares = np.full(LENGTH, np.nan, dtype=np.float32)
    shares[11] = 1.0
    board.set_heat(Heat(shares, "entropy", "0", "1 nat", words=lambda place: f"at {place}"))
    image = board.grab().toImage()
    assert image.pixelColor(corner(board, 10)) == entropy_color(1.0, DARKROOM)
    assert image.pixelColor(corner(board, 11)) != entropy_color(1.0, DARKROOM)
    assert board.cell_text(10)[-1] == "at 11"
    board.set_heat(None)
    assert board.grab().toImage().pixelColor(corner(board, 10)) != entropy_color(1.0, DARKROOM)


def test_the_legend_says_what_the_colours_mean(qtbot):
    pane = BoardPane()
    qtbot.addWidget(pane)
    assert {"possible, by size", "given"} <= set(pane.legend.words)
    pane.set_heat(Heat(np.zeros(LENGTH, np.float32), "entropy", "0", "1.2 nats"))
    assert pane.legend.words == ["entropy, 0 to 1.2 nats"]
    pane.grab()


def test_a_cell_is_named_by_its_row_and_column_where_it_is_on_a_board():
    placed = Placed("0" * 81, tuple(row * 10 + column for row in range(9) for column in range(9)))
    assert cell_name(54, placed) == "row 6, column 5"
    assert cell_name(59, placed) == cell_name(59, None) == "position 59"  # a line break
