"""The puzzle being entered: cells, cursor, history, pasting, what is wrong with it."""

from __future__ import annotations

import random
from itertools import product

import pytest

from app.state.sudoku.board import BLANK, EMPTY, HISTORY, SIZE, Board, BoardEntry, check, generate, solutions
from app.state.sudoku.pasting import MOST_TEXT, PasteError, read
from engine.tasks import sudoku
from engine.tasks.sudoku import BINS, GIVENS
from tests.looping import looped

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


# ------------------------------------------------------------------------------------------------------------ board


def test_a_board_is_81_digits():
    assert EMPTY.is_empty
    assert BOARD.givens == 30
    assert BOARD.text() == PUZZLE
    assert BOARD.lines().splitlines() == ROWS
    for wrong in ("", "1" * 80, "x" * 81, PUZZLE):
        with pytest.raises(ValueError, match="81 digits"):
            Board(wrong)


@pytest.mark.parametrize(("givens", "expected"), [(29, "hard"), (30, "medium"), (39, "medium"), (40, "easy")])
def test_the_bins(givens, expected):
    assert Board(SOLVED[:givens].ljust(SIZE, BLANK)).bin == expected


# ------------------------------------------------------------------------------------------------------------ entry


def test_digits_are_written_and_cleared_and_every_change_can_be_undone():
    entry = BoardEntry().go(40).put("5").move(1, 0).put("7").put(BLANK).clear()
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


def test_another_change_ends_what_could_be_done_again():
    entry = BoardEntry().put("1").undo().put("2")
    assert not entry.can_redo
    assert entry.undo().board == EMPTY


def test_a_paste_is_one_change_and_clearing_all_another():
    entry = BoardEntry().put("9").replace(BOARD).clear_all()
    assert entry.board == EMPTY
    assert entry.undo().board == BOARD
    assert entry.undo().undo().board == BoardEntry().put("9").board


def test_the_history_is_bounded():
    entry = BoardEntry()
    for change in range(HISTORY + 50):
        entry = entry.put("12"[change % 2])
    assert len(entry.past) == HISTORY


def test_the_cursor_stops_at_the_edges_and_is_no_change():
    entry = BoardEntry().move(-1, -1)
    assert entry.cursor == 0
    assert entry.move(20, 3).cursor == 35
    assert entry.go(80).move(1, 1).cursor == 80
    assert entry.go(81).cursor == entry.go(-1).cursor == 0
    assert not entry.go(80).can_undo
    kept = entry.put("4").undo().go(7)
    assert kept.can_redo


@pytest.mark.parametrize("digit", ["", "a", "10", "٣"])
def test_only_digits_are_written(digit):
    with pytest.raises(ValueError, match="81 digits"):
        BoardEntry().put(digit)


# ---------------------------------------------------------------------------------------------------------- pasting


@pytest.mark.parametrize("blank", "0._*-?x·")
def test_81_characters_and_nine_lines_with_any_blank(blank):
    assert read(PUZZLE.replace(".", blank)) == BOARD
    assert read("\n".join(ROWS).replace(".", blank)) == BOARD
    assert read("\r\n".join(ROWS).replace(".", blank) + "\r\n") == BOARD
    assert read("\n".join(" ".join(row) for row in ROWS).replace(".", blank)) == BOARD


@pytest.mark.parametrize(
    "ruler", ["------+-------+------", "+---+---+---+", "*-----------*", "-----------", "---------", "═══╬═══╬═══", ""]
)
@looped("blank, left", product("0.-_", ["", "|"]))
def test_rulers_are_left_out(ruler, blank, left):
    assert read(ruled(ruler, blank, left)) == BOARD


@pytest.mark.parametrize("blank", "0.*-_")
def test_a_row_of_blanks_is_no_ruler(blank):
    rows = [ROWS[0], "." * 9, *ROWS[2:]]
    assert read("\n".join(rows).replace(".", blank)).text() == "".join(rows)


@pytest.mark.parametrize("mark", [",", ";", "\t", ", "])
@looped("blank, end", product(["", "0", "."], ["", ","]))
def test_separated_fields_may_be_empty(mark, blank, end):
    lines = [mark.join(row).replace(".", blank) + end.replace(",", mark) for row in ROWS]
    assert read("\n".join(lines)) == BOARD


def test_comments_sections_names_and_further_puzzles():
    sdk = "\n".join(["#A somebody", "#D 2020", "[Puzzle]", *ROWS, "[State]", *["1" * 9] * 9])
    assert read(sdk) == BOARD
    assert read(f"{PUZZLE} # an easy one\n{SOLVED}") == BOARD
    assert read(f"puzzle,solution\n{BOARD.cells},{SOLVED}") == BOARD
    assert read("\ufeff" + PUZZLE) == BOARD
    assert read("".join(chr(ord(cell) + 0xFEE0) if cell in "123456789" else cell for cell in PUZZLE)) == BOARD


def test_what_contradicts_itself_is_taken_as_it_is():
    assert read("55" + "." * 79).conflicts == ((0, 1),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no text"),
        (" \n# nothing", "no text"),
        (PUZZLE[:80], "has 80 cells"),
        (PUZZLE + "1", "has 82 cells"),
        ("7", "has 1 cell;"),
        ("hello", "character 'h'"),
        ("1" * (MOST_TEXT + 1), "too long"),
    ],
)
def test_a_text_that_is_no_puzzle_is_refused_in_a_sentence(text, said):
    with pytest.raises(PasteError, match=said):
        read(text)


# --------------------------------------------------------------------------------------------------------- checking


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
    assert (found.kind, found.runs, found.is_sound) == (kind, runs, kind == "one")
    assert said in found.text
    assert "\n" not in found.text


def test_the_solver_gives_up_in_time():
    # Thirteen solutions far apart: to tell that takes a plain search minutes.
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
