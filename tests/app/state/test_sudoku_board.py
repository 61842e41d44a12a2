"""The puzzle being entered: cells, cursor, history, pasting, and its faults."""

from __future__ import annotations

import random

import pytest

from app.state.sudoku.board import BLANK, EMPTY, SIZE, Board, BoardEntry, check, generate, solutions
from app.state.sudoku.placing import board_in
from engine.tasks import sudoku
from engine.tasks.sudoku import BINS, GIVENS

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
ROWS = [PUZZLE[start : start + 9] for start in range(0, SIZE, 9)]
BOARD = Board(PUZZLE.replace(".", "0"))


def ruled(ruler: str, blank: str = ".", left: str = "") -> str:
    """Nine lines with rulers over each band and under the last."""
    lines = []
    for place, row in enumerate(ROWS):
        if place % 3 == 0:
            lines.append(ruler)
        lines.append(left + "|".join((row[:3], row[3:6], row[6:])).replace(".", blank) + left)
    return "\n".join([*lines, ruler])


def test_a_board_is_81_digits():
    assert EMPTY.is_empty
    assert BOARD.givens == 30
    assert BOARD.text() == PUZZLE
    for wrong in ("", "1" * 80, "x" * 81, PUZZLE):
        with pytest.raises(ValueError, match="81 digits"):
            Board(wrong)


@pytest.mark.parametrize(("givens", "expected"), [(29, "hard"), (30, "medium"), (39, "medium"), (40, "easy")])
def test_the_bins(givens, expected):
    assert Board(SOLVED[:givens].ljust(SIZE, BLANK)).bin == expected


def test_digits_are_written_and_cleared_and_every_change_can_be_undone():
    entry = BoardEntry().go(40).put("5").go(41).put("7").put(BLANK).put(BLANK)
    assert (entry.board[40], entry.board[41], entry.cursor) == ("5", BLANK, 41)
    assert len(entry.past) == 3  # clearing what is clear is no change
    entry = entry.undo()
    assert entry.board[41] == "7"
    entry = entry.undo().undo()
    assert entry.board == EMPTY
    assert not entry.can_undo
    assert entry.cursor == 40  # back where the change was made
    assert entry.undo() == entry
    entry = entry.redo().redo().redo()
    assert entry.board[40] == "5"
    assert entry.board[41] == BLANK
    assert not entry.can_redo
    assert entry.redo() == entry


def test_a_paste_is_one_change_and_clearing_all_another():
    entry = BoardEntry().put("9").replace(BOARD).clear_all()
    assert entry.board == EMPTY
    assert entry.undo().board == BOARD
    assert entry.undo().undo().board == BoardEntry().put("9").board


def test_the_cursor_is_no_change():
    entry = BoardEntry()
    assert entry.go(81).cursor == entry.go(-1).cursor == 0
    assert not entry.go(80).can_undo
    assert entry.put("4").undo().go(7).can_redo


def test_a_pasted_text_is_81_cells_in_a_line_or_in_nine():
    for text in (
        PUZZLE,
        PUZZLE.replace(".", "0"),
        "\n".join(ROWS),
        ruled("------+-------+------"),
        f"A puzzle:\n{PUZZLE}",
    ):
        assert board_in(text) == BOARD
    assert board_in("55" + "." * 79).conflicts == ((0, 1),)  # taken as it is
    for text in ("", PUZZLE[:80], PUZZLE + "1", "hello", "x" * 81):
        assert board_in(text) is None


@pytest.mark.parametrize(
    ("cells", "kind", "said", "runs"),
    [
        (BLANK * SIZE, "empty", "generate one", False),
        ("55" + BLANK * 79, "contradiction", "5 is twice in row 1:", False),
        ("7" + BLANK * 35 + "7" + BLANK * 44, "contradiction", "7 is twice in column 1:", False),
        (BLANK * 60 + "3" + BLANK * 10 + "3" + BLANK * 9, "contradiction", "3 is twice in box 9:", False),
        ("123456780000000009" + BLANK * 63, "none", "no solution", False),
        (SOLVED[:16] + BLANK * 65, "few", "Too few givens (16)", True),
        (SOLVED[:30] + BLANK * 51, "many", "more than one solution", True),
        (BOARD.cells, "one", "One solution, 30 givens: medium.", True),
        (SOLVED, "full", "full", False),
    ],
)
def test_what_is_wrong_with_a_board_is_one_sentence(cells, kind, said, runs):
    found = check(Board(cells))
    assert (found.kind, found.runs) == (kind, runs)
    assert said in found.text
    assert "\n" not in found.text


def test_the_solver_gives_up_in_time():
    # Thirteen solutions far apart: a plain search takes minutes to find that.
    board = Board(".....6....59.....82....8....45........3........6..3.54...325..6..................".replace(".", "0"))
    assert solutions(board.cells) is None
    found = check(board)
    assert found.kind == "unsettled"
    assert found.runs
    assert "took too long" in found.text


@pytest.mark.parametrize("bin", BINS)
def test_a_generated_puzzle_has_one_solution_and_is_held_out(bin):
    givens = GIVENS[bin]
    board = generate(bin, random.Random(3))
    assert givens.low <= board.givens <= givens.high
    assert board.bin == bin
    assert check(board).kind == "one"
    assert sudoku.is_held_out(solutions(board.cells)[0])
    assert generate(bin, random.Random(3)) == board
