"""A Sudoku is found in a prompt, in an answer and on a canvas."""

from __future__ import annotations

import numpy as np
import pytest

from app.state.run.canvas import BlockState, CanvasState
from app.state.sudoku.board import EMPTY
from app.state.sudoku.placing import MAX_GRID_CHARACTERS, answered, grid_in, placed, puzzle_in
from app.state.sudoku.solve_frame import POSITIONS, frame, settled
from engine import CanvasCommitted, CanvasStarted
from engine.tasks import sudoku
from tests.app.sudoku.scripted import PUZZLE, SOLVED, Script, piece

LINES, SOLUTION = sudoku.rows(PUZZLE), sudoku.rows(SOLVED)
DRAWN = "\n".join(
    "------+-------+------" if row in (3, 7) else "| " + " ".join(line.replace("0", ".")) + " |"
    for row, line in enumerate([*LINES.splitlines()[:3], "", *LINES.splitlines()[3:6], "", *LINES.splitlines()[6:]])
)


@pytest.mark.parametrize("text", [LINES, PUZZLE, DRAWN, f"Solve this Sudoku:\n\n{LINES}\n\nOnly the grid, please."])
def test_a_puzzle_is_found_in_what_was_asked(text):
    assert puzzle_in(text) == PUZZLE
    found = grid_in(text)
    assert [text[at] for at in found.offsets] == list(found.signs)
    assert found.is_alone == (not text.startswith("Solve"))


@pytest.mark.parametrize(
    "text",
    [LINES[:-1], LINES + "1", SOLUTION, "\n".join(["sentences"] * 9), "x" * MAX_GRID_CHARACTERS + "\n" + LINES],
)
def test_what_is_no_puzzle_is_none(text):
    assert puzzle_in(text) is None


def test_an_answer_is_a_board_by_what_it_says_and_by_what_was_asked():
    asked = answered(LINES, SOLUTION)
    assert (asked.puzzle, asked.grid.answer, asked.grid.is_alone) == (PUZZLE, SOLVED, True)
    spoken = answered(LINES, f"Here it is:\n{LINES}\nbecomes\n{SOLUTION}\nDone.")
    assert (spoken.grid.answer, spoken.grid.is_alone) == (SOLVED, False)  # the last one
    faulty = answered(LINES, SOLUTION.replace("5346", "5a46"))
    assert faulty.grid.answer == SOLVED[:1] + "." + SOLVED[2:]
    assert answered(LINES, "I cannot read this.") is None
    # Nobody asked for a Sudoku: only a grid without fault is one.
    unasked = answered("Write any Sudoku.", SOLUTION)
    assert unasked.puzzle == EMPTY.cells
    assert answered("Write nine numbers.", SOLUTION.replace("5346", "5345")) is None


def test_a_board_of_text_alone_has_the_verdict_of_the_run():
    run = Script().step(SOLVED, set(range(81)), {}).commit("9" + SOLVED[1:])
    shown, read = frame(PUZZLE, run.block, piece), settled(PUZZLE, "9" + SOLVED[1:])
    assert read.verdict == shown.verdict
    assert (read.conflicts, read.violated, read.answer) == (shown.conflicts, shown.violated, shown.answer)
    assert [(cell.digit, cell.given, cell.wrong) for cell in read.cells] == [
        (cell.digit, cell.given, cell.wrong) for cell in shown.cells
    ]


def test_a_canvas_is_a_board_from_its_noise_on():
    script = Script()
    assert placed(LINES, script.block, piece) == (PUZZLE, POSITIONS)
    script.step(SOLVED, {1}, {})
    assert placed(LINES, script.block, piece) == (PUZZLE, POSITIONS)
    assert placed(f"Solve:\n{LINES}", script.block, piece) is None  # it may say something first
    assert placed("Solve it.", script.block, piece) is None
    assert placed(LINES, script.commit(SOLVED).block, piece) == (PUZZLE, POSITIONS)
    prose = Script().step("a" * 81, {1}, {})
    assert placed(LINES, prose.block, piece) is None  # the draft says otherwise
    assert placed(LINES, BlockState(0, np.zeros(64, np.int32), np.zeros(64, np.bool_)), piece) is None


def test_cells_are_found_wherever_they_were_written():
    def written(pieces: list[str]) -> BlockState:
        tokens = np.arange(len(pieces), dtype=np.int32)
        none = np.zeros(len(pieces), dtype=np.bool_)
        events = [CanvasStarted(0, tokens, none), CanvasCommitted(0, tokens, len(pieces), 0, "converged")]
        return CanvasState.from_events(events).blocks[0]

    spaced = ["The", " answer", ":\n"]
    for cell, digit in enumerate(SOLVED):
        spaced += [digit if cell % 9 == 0 else f" {digit}"] + (["\n"] if cell % 9 == 8 else [])
    block = written(spaced)
    found = placed(f"Please solve\n{LINES}", block, spaced.__getitem__)
    assert found.positions[:3] == (3, 4, 5)
    assert found.positions[9] == 13
    shown = frame(found.puzzle, block, spaced.__getitem__, found.positions)
    assert shown.verdict.valid
    pairs = [SOLVED[at : at + 3] + ("\n" if at % 9 == 6 else "") for at in range(0, 81, 3)]  # three cells in a token
    assert placed(LINES, written(pairs), pairs.__getitem__) is None
