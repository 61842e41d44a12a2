"""The scoreboard's arithmetic: which puzzles, what counts, the intervals, the rows, the files."""

from __future__ import annotations

import csv
import io

import pytest

from app.state.intervals import wilson
from app.state.sudoku.scores import Result, Scoreboard, make_puzzle
from engine.tasks import sudoku
from engine.tasks.sudoku import GIVENS, GivenRange

SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


def puzzle(blanks: int) -> str:
    """The solution with its first cells blank; not unique with many of them, which does not matter here."""
    return "0" * blanks + SOLUTION[blanks:]


def result(blanks: int, answer: str = SOLUTION, contender: str = "a", steps: int = 4, seconds: float = 0.5) -> Result:
    return Result(puzzle(blanks), answer, SOLUTION, steps, seconds, contender)


@pytest.mark.parametrize(
    ("solved", "count", "low", "high"),
    [  # as published for these counts, to four places
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals(solved: int, count: int, low: float, high: float) -> None:
    assert wilson(solved, count) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))


def test_an_interval_holds_its_rate_and_narrows() -> None:
    widths = []
    for count in (1, 4, 40, 400):
        low, high = wilson(count // 2, count)
        assert 0 <= low <= (count // 2) / count <= high <= 1
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


def test_a_puzzle_is_a_function_of_seed_bin_and_number() -> None:
    made = make_puzzle(GIVENS["easy"], 7, 0)
    assert make_puzzle(GIVENS["easy"], 8, 0) != make_puzzle(GIVENS["easy"], 7, 0) == made
    assert make_puzzle(GIVENS["easy"], 7, 1) != made
    assert sudoku.solutions(made.board, 2) == [made.solution]
    assert sudoku.is_held_out(made.solution)
    assert sudoku.bin_of(made.board) == "easy"


def test_spans_are_bins_and_say_what_they_are() -> None:
    for name, span in GIVENS.items():
        for givens in (span.low, span.high):
            assert sudoku.bin_of("1" * givens + "0" * (81 - givens)) == name
    assert (str(GivenRange(30, 39)), str(GivenRange(36, 36))) == ("30-39", "36")
    assert sudoku.givens(make_puzzle(GivenRange(44, 44), 0, 0).board) == 44


def test_what_counts() -> None:
    right = result(30)
    assert (right.solved, right.exact, right.givens_kept) == (True, True, True)
    assert (right.cells_right, right.blanks, right.bin, right.givens) == (30, 30, "easy", 51)
    off = result(30, "1" + SOLUTION[1:])
    assert (off.solved, off.exact, off.givens_kept, off.cells_right) == (False, False, True, 29)
    lost = result(30, SOLUTION[:80] + ".")
    assert (lost.solved, lost.givens_kept, lost.cells_right) == (False, False, 30)
    empty = result(30, "." * 81)
    assert (empty.solved, empty.cells_right) == (False, 0)


def test_another_valid_grid_is_solved_but_not_exact() -> None:
    """A puzzle with several solutions has no cell to be held against."""
    open_puzzle = "0" * 81
    other = Result(open_puzzle, SOLUTION, "", 3, 0.1)
    assert (other.solved, other.exact, other.cells_right) == (True, False, None)
    board = Scoreboard([other])
    assert board.rows()[0].cell_accuracy is None
    assert board.rows()[0].rate == 1.0


def scores() -> Scoreboard:
    board = Scoreboard()
    for one in (
        result(30, steps=2, seconds=0.2),
        result(45, steps=10),
        result(40, "1" + SOLUTION[1:], steps=4, seconds=0.4),
        result(35, steps=3, seconds=0.3),
        result(30, "." * 81, contender="b", steps=48, seconds=2.0),
    ):
        board.add(one)
    return board


def test_rows_fold_by_contender_and_bin() -> None:
    board = scores()
    assert board.contenders == ["a", "b"]
    assert board.bins == ["easy", "medium"]
    assert [(row.contender, row.bin, row.solved, row.count) for row in board.rows()] == [
        ("a", "easy", 2, 3),
        ("a", "medium", 1, 1),
        ("a", "all", 3, 4),
        ("b", "easy", 0, 1),
        ("b", "all", 0, 1),
    ]
    easy = board.rows()[0]
    assert (easy.rate, easy.low, easy.high) == (pytest.approx(2 / 3), *wilson(2, 3))
    assert easy.cell_accuracy == pytest.approx((30 + 39 + 35) / 105)
    assert (easy.mean_steps, easy.median_steps, easy.mean_seconds) == (3, 3, pytest.approx(0.3))
    assert easy.givens_kept == 1
    lost = board.rows()[3]
    assert (lost.rate, lost.cell_accuracy, lost.givens_kept) == (0, 0, 0)


def test_rows_to_show_stand_bin_by_bin() -> None:
    board = scores()
    shown = [(row.bin, row.contender) for row in board.rows_to_show()]
    assert shown == [("easy", "a"), ("easy", "b"), ("medium", "a"), ("all", "a"), ("all", "b")]
    one_bin = Scoreboard([result(30), result(30, contender="b")])
    assert [row.bin for row in one_bin.rows_to_show()] == ["easy", "easy"]
    assert Scoreboard().rows() == Scoreboard().rows_to_show() == []


def test_csv_has_a_line_a_result() -> None:
    board = scores()
    lines = list(csv.DictReader(io.StringIO(board.to_csv())))
    assert [line["contender"] for line in lines] == ["a"] * 4 + ["b"]
    assert lines[0]["puzzle"] == puzzle(30)
    assert lines[4]["answer"] == "." * 81
    assert [int(line["steps"]) for line in lines] == [2, 10, 4, 3, 48]
    assert float(lines[4]["seconds"]) == 2.0
    assert Scoreboard().to_csv().count("\n") == 1
    unknown = Scoreboard([Result("0" * 81, SOLUTION, "", 1, 0.1, 'who, "me"')])
    (line,) = csv.DictReader(io.StringIO(unknown.to_csv()))
    assert (line["cells_right"], line["contender"]) == ("", 'who, "me"')
