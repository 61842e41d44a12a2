"""Sudoku: the solver against brute force, unique puzzles, parsing and judging."""

from __future__ import annotations

import random

import pytest

from engine.tasks import sudoku
from engine.tasks.sudoku import DIGITS, PEERS, SIZE, PuzzleError
from tests.looping import looped

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
HARDEST = "800000000003600000070090200050007000000045700000100030001000068008500010090000400"


def is_solution(board: str) -> bool:
    """Each row, column and box holds each digit once; written without the module's tables."""
    grid = [board[9 * row : 9 * row + 9] for row in range(9)]
    columns = ["".join(row[column] for row in grid) for column in range(9)]
    boxes = ["".join(row[c : c + 3] for row in grid[r : r + 3]) for r in (0, 3, 6) for c in (0, 3, 6)]
    return all(sorted(unit) == sorted(DIGITS) for unit in [*grid, *columns, *boxes])


SEEN = [
    [i for i in range(SIZE) if i // 9 == row or i % 9 == column or (i // 27, i % 9 // 3) == (row // 3, column // 3)]
    for row in range(9)
    for column in range(9)
]


def brute_force(board: str) -> list[str]:
    """All solutions, by trying every digit in the first blank."""
    if "0" not in board:
        return [board] if is_solution(board) else []
    cell = board.index("0")
    taken = {board[i] for i in SEEN[cell]}
    return [found for d in DIGITS if d not in taken for found in brute_force(board[:cell] + d + board[cell + 1 :])]


@looped("seed", range(5))
def test_solver_against_brute_force(seed: int) -> None:
    """Blanks in two rows, boxes or digits make many boards with several solutions; some have one, some none."""
    rng = random.Random(seed)
    board = list(sudoku.random_solution(rng))
    pair = rng.sample(range(9), 2)
    digits = set(rng.sample(DIGITS, 3))
    for cell in range(SIZE):
        if cell // 9 in pair or board[cell] in digits:
            board[cell] = "0"
    if seed % 5 == 0:  # a wrong given
        blank = rng.choice([cell for cell in range(SIZE) if board[cell] == "0"])
        board[blank] = rng.choice(DIGITS)
    text = "".join(board)
    expected = brute_force(text)
    assert sorted(sudoku.solutions(text, limit=10_000)) == sorted(expected)
    assert len(sudoku.solutions(text, limit=2)) == min(2, len(expected))


def test_solver_on_known_puzzles() -> None:
    assert sudoku.solutions(PUZZLE) == [SOLVED]
    (found,) = sudoku.solutions(HARDEST)
    assert is_solution(found)
    assert all(given in ("0", cell) for given, cell in zip(HARDEST, found, strict=True))
    assert sudoku.solutions("11" + "0" * 79) == []
    assert len(sudoku.solutions("0" * 81, limit=5)) == 5


@pytest.mark.parametrize(("low", "high", "name"), [(40, 45, "easy"), (30, 39, "medium"), (26, 29, "hard")])
def test_generated_puzzles_are_unique_and_in_their_bin(low: int, high: int, name: str) -> None:
    rng = random.Random(name)
    for _ in range(3):
        puzzle = sudoku.generate(rng, low, high)
        assert low <= sudoku.givens(puzzle.board) <= high
        assert sudoku.bin_of(puzzle.board) == name
        assert is_solution(puzzle.solution)
        assert sudoku.solutions(puzzle.board) == [puzzle.solution]


def test_digging_to_the_ground_leaves_a_minimal_puzzle() -> None:
    board = sudoku.dig(SOLVED, 0, random.Random(5)).board
    assert len(sudoku.solutions(board)) == 1
    for cell in range(SIZE):
        if board[cell] != "0":
            assert len(sudoku.solutions(board[:cell] + "0" + board[cell + 1 :])) > 1


def symmetric(solution: str, rng: random.Random) -> str:
    """Returns the grid under a random relabelling, permutation of bands, rows, stacks, columns, and transposition."""
    rows, columns = ([3 * b + i for b in rng.sample(range(3), 3) for i in rng.sample(range(3), 3)] for _ in range(2))
    names = dict(zip(DIGITS, rng.sample(DIGITS, 9), strict=True))
    turned = rng.random() < 0.5
    cells = [(c, r) if turned else (r, c) for r in rows for c in columns]
    return "".join(names[solution[9 * r + c]] for r, c in cells)


@looped("seed", range(4))
def test_holding_out_goes_by_symmetry_class(seed: int) -> None:
    rng = random.Random(seed)
    solution = sudoku.random_solution(rng)
    while sudoku.is_held_out(solution) is not (seed % 2 == 0):  # both kinds are tried
        solution = sudoku.random_solution(rng)
    for _ in range(10):
        other = symmetric(solution, rng)
        assert is_solution(other)
        assert sudoku.is_held_out(other) is (seed % 2 == 0)


def test_about_one_grid_in_sixteen_is_held_out() -> None:
    rng = random.Random(0)
    held = sum(sudoku.is_held_out(sudoku.random_solution(rng)) for _ in range(100))
    assert 2 <= held <= 14


@pytest.mark.parametrize(
    "text",
    [
        PUZZLE,
        PUZZLE.replace("0", "."),
        PUZZLE.replace("0", "*"),
        sudoku.rows(PUZZLE.replace("0", "_")),
        " ".join(PUZZLE),
        "\n".join(
            " | ".join(line[i : i + 3] for i in (0, 3, 6)) + "\n---+---+---" for line in sudoku.rows(PUZZLE).split("\n")
        ),
    ],
)
def test_parse_reads_the_usual_forms(text: str) -> None:
    assert sudoku.parse(text) == PUZZLE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 cells"),
        (PUZZLE[:-1], "has 80 cells"),
        (PUZZLE + "1", "has 82 cells"),
        (PUZZLE[:-1] + "x", "character 'x'"),
        (PUZZLE[:-1] + "\u0663", "character"),
        ("5" + PUZZLE[:80], "contradicts itself: 5 stands at row 1, column 1 and at row 1, column 2"),
        ("1" + "0" * 8 + "01" + "0" * 70, "row 1, column 1 and at row 2, column 2"),
        ("7" + "0" * 71 + "7" + "0" * 8, "row 1, column 1 and at row 9, column 1"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(PuzzleError) as error:
        sudoku.parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_answers_are_read_as_cells() -> None:
    assert sudoku.read_answer(sudoku.rows(SOLVED)) == SOLVED
    assert sudoku.read_answer(SOLVED + "\n") == SOLVED
    assert sudoku.read_answer("") == "." * SIZE
    assert sudoku.read_answer("5?4") == "5.4" + "." * 78
    assert sudoku.read_answer(SOLVED + "999") == SOLVED
    assert sudoku.to_prompt(PUZZLE).count("\n") == 8


def test_judge() -> None:
    right = sudoku.judge(PUZZLE, SOLVED)
    assert (right.valid, right.givens_kept, right.conflicts) == (True, True, ())
    other = sudoku.random_solution(random.Random(1))
    assert (sudoku.judge(PUZZLE, other).valid, sudoku.judge(PUZZLE, other).givens_kept) == (False, False)
    assert sudoku.judge("0" * 81, other).valid
    blank = sudoku.judge(PUZZLE, SOLVED[:2] + "." + SOLVED[3:])
    assert (blank.valid, blank.givens_kept, blank.conflicts) == (False, True, ())
    wrong = sudoku.judge(PUZZLE, SOLVED[:2] + "3" + SOLVED[3:])  # row 1 has two threes, column 3 and the box another
    assert not wrong.valid
    assert wrong.givens_kept
    assert (1, 2) in wrong.conflicts
    assert all(a < b and b in PEERS[a] for a, b in wrong.conflicts)
