"""Geometry and looks of a board's cells: states, pencil marks, changed givens."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from PySide6.QtGui import QImage, QPainter

from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs
from app.board.paint import paint_sample, texts
from app.canvas.geometry import Rect
from app.design.tokens import DARKROOM
from app.state.run.canvas import CellState
from app.state.sudoku.board import SIZE
from app.state.sudoku.solve_frame import PencilMark, ShownCell, SolveFrame, frame
from tests.app.canvas.pointing import THEMES
from tests.app.sudoku.scripted import NOISE, PUZZLE, SOLVED, Script, piece


def shown(script: Script) -> SolveFrame:
    return frame(PUZZLE, script.block, piece)


@pytest.mark.parametrize(("width", "height"), [(280, 280), (281, 900), (560, 300), (900, 900)])
def test_cells_and_points_go_in_both_directions_and_all_fits(width, height):
    grid = BoardGeometry.within(width, height)
    for index in range(SIZE):
        x, y, w, h = grid.rect_of(index)
        assert {grid.cell_at(x + dx, y + dy) for dx in (0, w - 1) for dy in (0, h - 1)} == {index}
        assert w == h >= 28
        assert 0 <= x <= width - w
        assert 0 <= y <= height - h
    assert abs((width - grid.side) / 2 - grid.left) <= 1
    right = grid.left + grid.side
    outside = [(grid.left - 1, grid.top), (grid.left, grid.top - 1), (right, grid.top), (-9, -9), (1e6, 0)]
    assert [grid.cell_at(x, y) for x, y in outside] == [-1] * 5
    for index in (-1, SIZE):
        with pytest.raises(IndexError):
            grid.rect_of(index)


PLAIN = ShownCell(CellState.SETTLED, "7", "7", "", (), None, 0, False, False, False)
KINDS = {
    "noise": PLAIN._replace(state=CellState.NOISE, text=NOISE, digit=""),
    "marks": PLAIN._replace(state=CellState.NOISE, digit="", marks=(PencilMark("7", 0.4), PencilMark("2", 0.3))),
    "candidate": PLAIN._replace(state=CellState.CANDIDATE),
    "accepted": PLAIN._replace(state=CellState.ACCEPTED),
    "taken_back": PLAIN._replace(state=CellState.TAKEN_BACK),
    "settled": PLAIN,
    "given": PLAIN._replace(given="7"),
    "pinned": PLAIN._replace(given="7", state=CellState.GIVEN),
    "conflict": PLAIN._replace(in_conflict=True),
    "wrong": PLAIN._replace(wrong=True),
    "changed given": PLAIN._replace(given="2", violated=True),
}


def sample(cell: ShownCell, theme, size: int) -> QImage:
    image = QImage(size, size, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint_sample(painter, Rect(0, 0, size, size), cell, theme, BoardGlyphs())
    painter.end()
    return image


def assert_all_differ(kinds: dict[str, ShownCell], theme, size: int) -> None:
    painted = {name: sample(cell, theme, size) for name, cell in kinds.items()}
    for one, two in itertools.combinations(painted, 2):
        assert painted[one] != painted[two], (one, two)


@THEMES
@pytest.mark.parametrize("size", [29, 60, 96])
@pytest.mark.usefixtures("qapp")
def test_every_state_looks_other_than_every_other(theme, size):
    assert_all_differ(KINDS, theme, size)


@pytest.mark.usefixtures("qapp")
def test_states_differ_in_shape_and_not_in_colour_alone():
    """Every state but one stands apart in one ink: a candidate and a settled digit differ in ink alone."""
    one_ink = dict.fromkeys(("candidate", "accepted", "taken_back", "settled", "given", "conflict", "noise"), "#ffffff")
    theme = replace(DARKROOM, **one_ink)
    assert_all_differ({name: cell for name, cell in KINDS.items() if name != "candidate"}, theme, 60)


@pytest.mark.usefixtures("qapp")
def test_a_pencil_mark_is_as_large_as_it_is_likely_and_has_its_place():
    grid = BoardGeometry.within(560, 560)
    marks = {2: {"1": 0.45, "9": 0.3, "5": 0.05}, 3: {"6": 0.9, "1": 0.1}}
    drawn = texts(grid, shown(Script().step(SOLVED, set(), marks)), DARKROOM, BoardGlyphs())

    undecided, likely = (
        {item.text: (item.face.size, item.x, item.y) for item in drawn if grid.cell_at(item.x, item.y) == cell}
        for cell in (2, 3)
    )
    assert undecided["1"][0] > undecided["9"][0] > undecided["5"][0]
    assert undecided["1"][1] < undecided["5"][1] < undecided["9"][1]
    assert undecided["1"][2] < undecided["5"][2] < undecided["9"][2]
    assert undecided[NOISE][0] < undecided["1"][0]  # the noise that stands there is small
    assert likely["6"][0] > 2 * likely["1"][0]
    rect = grid.rect_of(3)
    assert likely["6"][1:] == (rect.x + rect.width / 2, rect.y + rect.height / 2)


@pytest.mark.usefixtures("qapp")
def test_both_digits_of_a_changed_given_can_be_read():
    grid = BoardGeometry.within(560, 560)
    drawn = texts(grid, shown(Script().step("9" + SOLVED[1:], {0}, {})), DARKROOM, BoardGlyphs())
    first = {item.text: item for item in drawn if grid.cell_at(item.x, item.y) == 0}
    assert set(first) == {"5", "9"}
    assert abs(first["5"].x - first["9"].x) > (first["5"].face.size + first["9"].face.size) * 0.3
