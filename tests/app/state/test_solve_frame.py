"""A board at a frame of a run, and the verdict at its end."""

from __future__ import annotations

import pytest

from app.state.run.canvas import CellState
from app.state.sudoku.board import SIZE, verdict
from app.state.sudoku.solve_frame import DOMINATES, LEAST_MARK, POSITIONS, SolveFrame, entered, frame
from tests.app.sudoku.scripted import NOISE, PUZZLE, SOLVED, Script, piece

ALL = set(range(SIZE))
BLANK_CELLS = [cell for cell in ALL if PUZZLE[cell] == "0"]
SWAPS = "912345678"  # another digit for each


def shown(script: Script, puzzle: str = PUZZLE) -> SolveFrame:
    return frame(puzzle, script.block, piece)


def other(cells: str, *which: int) -> str:
    """A text with other digits in some cells."""
    found = list(cells)
    for cell in which:
        found[cell] = SWAPS[int(found[cell]) - 1]
    return "".join(found)


def test_without_a_run_the_puzzle_is_shown():
    found = frame(PUZZLE, None, piece)
    assert not found.started
    assert [cell.given for cell in found.cells] == [digit if digit != "0" else "" for digit in PUZZLE]
    assert (found.step, found.entropy, found.accepted, found.verdict) == (-1, None, 0, None)
    assert found.conflicts == ()
    assert not any(cell.digit or cell.text or cell.marks for cell in found.cells)


def test_conflicts_while_a_puzzle_is_entered():
    found = entered("5" + "0" * 7 + "5" + "0" * 71 + "0")
    assert found.conflicts == ((0, 8),)
    assert [cell.in_conflict for cell in found.cells].count(True) == 2
    assert entered("5" + "0" * 9 + "5" + "0" * 70).conflicts == ((0, 10),)  # in one box


def test_states_of_cells_go_with_those_of_the_canvas():
    script = Script().step(SOLVED, {2, 3, 5}, {4: {"1": 0.4, "7": 0.35, "2": 0.25}})
    script.step(SOLVED, {2, 3}, {4: {"1": 0.4, "7": 0.35, "2": 0.25}, 6: {"9": 0.7, "1": 0.3}})
    found = shown(script)
    for cell, state, digit in (
        (2, CellState.SETTLED, SOLVED[2]),
        (5, CellState.TAKEN_BACK, SOLVED[5]),
        (4, CellState.NOISE, ""),
        (6, CellState.CANDIDATE, "9"),
    ):
        assert (found.cells[cell].state, found.cells[cell].digit) == (state, digit)
    assert (found.cells[5].text, found.cells[5].times_taken_back) == (NOISE, 1)
    assert shown(Script().step(SOLVED, {2}, {})).cells[2].state == CellState.ACCEPTED
    assert (found.step, found.steps, found.accepted) == (1, 2, 2)
    assert found.entropy == pytest.approx(0.5)  # of the 81 cells alone


def test_pencil_marks_are_digits_with_their_probability_likeliest_first():
    marks = {2: {"4": 0.45, "x": 0.3, "1": 0.2, "9": LEAST_MARK / 2}, 3: {"6": DOMINATES, "1": 0.4}}
    found = shown(Script().step(SOLVED, set(), marks))
    assert [(mark.digit, pytest.approx(mark.probability)) for mark in found.cells[2].marks] == [("4", 0.45), ("1", 0.2)]
    assert found.cells[2].digit == ""
    assert found.cells[3].digit == "6"
    assert len(found.cells[3].marks) == 2


def test_without_probabilities_the_best_guess_is_shown():
    found = shown(Script().step(SOLVED, {2}))
    assert found.cells[2].state == CellState.ACCEPTED
    assert found.cells[3].state == CellState.CANDIDATE
    assert "".join(cell.digit for cell in found.cells) == SOLVED
    assert found.cells[3].marks == ()


def test_conflicts_are_among_the_digits_that_are_shown():
    wrong = SOLVED[:2] + "7" + SOLVED[3:]  # 7 stands at (0, 4) too, as a given
    certain = shown(Script().step(wrong, {2}, {}))
    assert (2, 4) in certain.conflicts
    assert certain.cells[2].in_conflict
    assert certain.cells[4].in_conflict
    unsure = shown(Script().step(wrong, set(), {2: {"7": 0.4, "4": 0.35}}))
    assert (2, 4) not in unsure.conflicts


def test_a_given_with_another_digit_is_flagged():
    changed = other(SOLVED, 0)
    assert shown(Script().step(changed, {0}, {})).violated == (0,)
    assert shown(Script().step(changed, set(), {})).violated == (0,)  # as a guess too
    assert shown(Script().step(changed, set(), {0: {changed[0]: 0.4, "5": 0.3}})).violated == ()
    assert shown(Script().step(SOLVED, {0}, {})).violated == ()
    assert shown(Script().step(SOLVED, ALL, {}).commit("x" + SOLVED[1:])).violated == (0,)


def test_cells_beyond_the_canvas_or_its_text_stay_empty():
    script = Script().step(SOLVED, ALL, {})
    short = frame(PUZZLE, script.block, piece, [place + 50 for place in POSITIONS])
    assert short.cells[80].text == ""
    assert short.cells[80].entropy is None
    ended = shown(Script().step(SOLVED, ALL, {}).commit(SOLVED, text_length=40))
    assert ended.cells[35].digit == SOLVED[35]
    assert ended.cells[36].state == CellState.PADDING
    assert ended.cells[36].text == ""
    assert ended.verdict.kind == "incomplete"


OPEN = SOLVED[:30] + "0" * 51  # a puzzle of several solutions
RELABELLED = tuple(cell for cell in range(SIZE) if PUZZLE[cell] in "12")


@pytest.mark.parametrize(
    ("puzzle", "cells", "expected", "said"),
    [
        (PUZZLE, SOLVED, ("solved", True, ()), "Solved: the puzzle's only solution."),
        (OPEN, SOLVED, ("other", True, ()), "several"),
        (
            PUZZLE,
            other(SOLVED, *BLANK_CELLS[:3]),
            ("wrong", False, tuple(BLANK_CELLS[:3])),
            "Not solved: 3 of 51 blanks wrong.",
        ),
        (
            PUZZLE,
            SOLVED[:2] + "." + other(SOLVED, 3)[3:],
            ("incomplete", False, (2, 3)),
            "Not solved: 1 cell without a digit, 1 of 51 blanks wrong.",
        ),
        (
            PUZZLE,
            SOLVED.translate(str.maketrans("12", "21")),
            ("other", False, RELABELLED),
            f"A valid grid of another puzzle: {len(RELABELLED)} givens changed.",
        ),
        (PUZZLE, other(SOLVED, 0), ("wrong", False, (0,)), "Not solved: 1 given changed."),
    ],
)
def test_the_verdict_of_a_board(puzzle, cells, expected, said):
    found = verdict(puzzle, cells)
    assert (found.kind, found.valid, found.wrong) == expected
    assert said in found.text
    shown = frame(puzzle, Script().step(cells, ALL, {}).commit(cells).block, piece)
    assert (shown.committed, shown.answer, shown.verdict) == (True, cells, found)
    assert tuple(cell for cell in ALL if shown.cells[cell].wrong) == found.wrong
    assert not any(cell.marks for cell in shown.cells)


def test_without_a_single_solution_conflicts_count_as_wrong_but_not_the_givens_in_them():
    found = verdict(OPEN, other(SOLVED, 80))
    assert found.kind == "wrong"
    assert 80 in found.wrong
    assert all(OPEN[cell] == "0" for cell in found.wrong)
    assert "blanks in conflict" in found.text
