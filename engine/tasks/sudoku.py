"""Sudoku: boards, a solver, a puzzle generator and the prompt format. Knows neither torch nor Qt.

A board is a string of 81 characters, row by row, with ``0`` for a blank. The solver exists to generate
puzzles and to judge answers; it never changes what the model writes.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

DIGITS = "123456789"
SIZE = 81
ALL = 0x1FF  # one bit per digit


def _peers() -> tuple[tuple[int, ...], ...]:
    peers = []
    for cell in range(SIZE):
        row, column = divmod(cell, 9)
        box = (row // 3, column // 3)
        peers.append(
            tuple(
                other
                for other in range(SIZE)
                if other != cell and (other // 9 == row or other % 9 == column or (other // 27, other % 9 // 3) == box)
            )
        )
    return tuple(peers)


PEERS = _peers()
UNITS: tuple[tuple[int, ...], ...] = (
    *(tuple(range(9 * r, 9 * r + 9)) for r in range(9)),
    *(tuple(range(c, SIZE, 9)) for c in range(9)),
    *(tuple(27 * b + 3 * s + 9 * r + c for r in range(3) for c in range(3)) for b in range(3) for s in range(3)),
)


class PuzzleError(ValueError):
    """The text is not a valid puzzle; the message says why in one line."""


def parse(text: str) -> str:
    """Reads a puzzle written as 81 digits, ``.`` or ``0`` for blanks; white space and ``|+-`` rulers are ignored.

    Raises:
        PuzzleError: wrong length, a foreign character, or two equal givens in a row, column or box.
    """
    kept = [ch for ch in text if not ch.isspace() and ch not in "|+-"]
    for ch in kept:
        if ch not in DIGITS and ch not in "0._*":
            raise PuzzleError(f"puzzle has the character {ch!r}; use the digits 1-9, and 0 or . for a blank")
    if len(kept) != SIZE:
        raise PuzzleError(f"puzzle has {len(kept)} cells; it needs 81 (digits, and 0 or . for a blank)")
    board = "".join(ch if ch in DIGITS else "0" for ch in kept)
    for a, b in conflicts(board):
        raise PuzzleError(
            f"puzzle contradicts itself: {board[a]} stands at row {a // 9 + 1}, column {a % 9 + 1} "
            f"and at row {b // 9 + 1}, column {b % 9 + 1}"
        )
    return board


def conflicts(board: str) -> list[tuple[int, int]]:
    """Returns pairs of cells (a < b) that hold the same digit in one row, column or box."""
    return [
        (cell, peer)
        for cell in range(SIZE)
        if board[cell] in DIGITS
        for peer in PEERS[cell]
        if peer > cell and board[peer] == board[cell]
    ]


def givens(board: str) -> int:
    """Returns the number of filled cells."""
    return SIZE - board.count("0")


Bin = Literal["easy", "medium", "hard"]
BINS: tuple[Bin, ...] = ("easy", "medium", "hard")


@dataclass(frozen=True)
class GivenRange:
    """A range of numbers of givens, both ends included."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


GIVENS: dict[Bin, GivenRange] = {"easy": GivenRange(40, 50), "medium": GivenRange(30, 39), "hard": GivenRange(25, 29)}
"""Givens of the puzzles generated for a bin. Below 25 generation takes seconds, so "hard" ends there."""


def bin_of(board: str) -> Bin:
    """Returns ``easy`` (40 givens or more), ``medium`` (30 to 39) or ``hard`` (fewer)."""
    known = givens(board)
    return next((name for name in BINS if known >= GIVENS[name].low), "hard")


def _assign(candidates: list[int], cell: int, bit: int) -> bool:
    """Sets a cell and propagates singles; False on a contradiction."""
    stack = [(cell, bit)]
    while stack:
        cell, bit = stack.pop()
        if not candidates[cell] & bit:
            return False
        candidates[cell] = bit
        for peer in PEERS[cell]:
            left = candidates[peer]
            if left & bit:
                left &= ~bit
                if not left:
                    return False
                candidates[peer] = left
                if not left & (left - 1):
                    stack.append((peer, left))
    return True


def _initial(board: str) -> list[int] | None:
    candidates = [ALL] * SIZE
    for cell, ch in enumerate(board):
        if ch in DIGITS and not _assign(candidates, cell, 1 << (ord(ch) - 49)):
            return None
    return candidates


def _hidden_singles(candidates: list[int]) -> bool:
    """Places digits that fit one cell of a unit until none is left; False on a contradiction."""
    progress = True
    while progress:
        progress = False
        for unit in UNITS:
            once = twice = 0
            for cell in unit:
                value = candidates[cell]
                twice |= once & value
                once |= value
            if once != ALL:
                return False
            alone = once & ~twice
            if alone:
                for cell in unit:
                    bit = candidates[cell] & alone
                    if bit and bit != candidates[cell]:
                        if bit & (bit - 1) or not _assign(candidates, cell, bit):
                            return False
                        progress = True
    return True


class TooManyGuessesError(Exception):
    """The solver needed more guesses than allowed."""


def _search(
    candidates: list[int], limit: int, solved: list[str], rng: random.Random | None, budget: Iterator[int]
) -> None:
    if not _hidden_singles(candidates):
        return
    best, fewest = -1, 10
    for cell, value in enumerate(candidates):
        left = value.bit_count()
        if 1 < left < fewest:
            best, fewest = cell, left
            if left == 2:
                break
    if best < 0:
        solved.append("".join(DIGITS[value.bit_length() - 1] for value in candidates))
        return
    if next(budget, None) is None:
        raise TooManyGuessesError
    bits = [1 << digit for digit in range(9) if candidates[best] >> digit & 1]
    if rng is not None:
        rng.shuffle(bits)
    for bit in bits:
        branch = candidates.copy()
        if _assign(branch, best, bit):
            _search(branch, limit, solved, rng, budget)
            if len(solved) >= limit:
                return


def solutions(board: str, limit: int = 2, rng: random.Random | None = None, guesses: int | None = None) -> list[str]:
    """Returns up to ``limit`` solutions of a board (two are enough to see if it is unique).

    Raises:
        TooManyGuessesError: more than ``guesses`` were needed; None allows any number.
    """
    solved: list[str] = []
    candidates = _initial(board)
    if candidates is not None:
        _search(candidates, limit, solved, rng, count() if guesses is None else iter(range(guesses)))
    return solved


@dataclass(frozen=True)
class Puzzle:
    """A puzzle with its only solution, both as 81 digits."""

    board: str
    solution: str


def random_solution(rng: random.Random) -> str:
    """Draws a filled grid."""
    row = list(DIGITS)
    rng.shuffle(row)
    return solutions("".join(row) + "0" * 72, limit=1, rng=rng)[0]


def is_held_out(solution: str) -> bool:
    """True if a filled grid's symmetry class is kept for tests (about one class in sixteen).

    The class is found by an invariant under relabelling, permuted bands, stacks, rows and columns, and
    transposition: the cycle lengths of the permutations that take one row (column) of a band (stack) to another.
    """

    def cycles(first: str, second: str) -> str:
        step, seen, lengths = dict(zip(first, second, strict=True)), set(), []
        for start in DIGITS:
            length = 0
            while start not in seen:
                seen.add(start)
                start = step[start]
                length += 1
            if length:
                lengths.append(length)
        return "".join(map(str, sorted(lengths)))

    def signature(lines: list[str]) -> str:
        bands = (lines[b : b + 3] for b in (0, 3, 6))
        pairs = ((0, 1), (0, 2), (1, 2))
        return "|".join(sorted(",".join(sorted(cycles(band[i], band[j]) for i, j in pairs)) for band in bands))

    grid_rows = [solution[9 * r : 9 * r + 9] for r in range(9)]
    grid_columns = [solution[c::9] for c in range(9)]
    invariant = " ".join(sorted((signature(grid_rows), signature(grid_columns))))
    return zlib.crc32(invariant.encode()) % 16 == 0


def dig(solution: str, target: int, rng: random.Random) -> Puzzle:
    """Removes cells in random order while the puzzle stays unique, down to ``target`` givens if possible."""
    board = list(solution)
    left = SIZE
    for cell in rng.sample(range(SIZE), SIZE):
        if left <= target:
            break
        digit, board[cell] = board[cell], "0"
        # The puzzle without this cell is unique if no other digit fits there.
        others = _initial("".join(board))
        assert others is not None
        others[cell] &= ~(1 << (ord(digit) - 49))
        solved: list[str] = []
        for bit in [1 << d for d in range(9) if others[cell] >> d & 1]:
            branch = others.copy()
            if _assign(branch, cell, bit):
                _search(branch, 1, solved, None, count())
            if solved:
                break
        if solved:
            board[cell] = digit
        else:
            left -= 1
    return Puzzle("".join(board), solution)


def generate(rng: random.Random, low: int, high: int, *, held_out: bool = False) -> Puzzle:
    """Generates a fresh unique puzzle with a uniform number of givens in ``low``..``high`` (below 22 none may be
    found).

    ``held_out`` uses only grids of classes held out of training.
    """
    target = rng.randint(low, high)
    while True:
        solution = random_solution(rng)
        if held_out and not is_held_out(solution):
            continue
        puzzle = dig(solution, target, rng)
        if givens(puzzle.board) == target:
            return puzzle


def to_prompt(board: str) -> str:
    """Returns the model's prompt: nine lines of nine digits, 0 for a blank."""
    return rows(board)


def rows(board: str) -> str:
    """Returns the board as nine lines."""
    return "\n".join(board[start : start + 9] for start in range(0, SIZE, 9))


def read_answer(text: str) -> str:
    """Returns the 81 characters of a model's answer: digits in order, ``.`` for any other character.

    Line breaks separate rows; an answer that is not nine lines of nine is read as one run of characters.
    """
    lines = text.strip("\n").split("\n")
    cells = "".join(lines) if all(len(line) == 9 for line in lines) else text.replace("\n", "")
    return "".join(ch if ch in DIGITS else "." for ch in cells)[:SIZE].ljust(SIZE, ".")


@dataclass(frozen=True)
class Judgement:
    """The verdict on an answer to a puzzle, and its errors."""

    valid: bool  # a complete grid without conflicts that keeps every given
    givens_kept: bool
    conflicts: tuple[tuple[int, int], ...]


def judge(board: str, answer: str) -> Judgement:
    """Judges an 81-character answer against its puzzle."""
    kept = all(given in ("0", cell) for given, cell in zip(board, answer, strict=True))
    clashes = tuple(conflicts(answer))
    filled = all(cell in DIGITS for cell in answer)
    return Judgement(valid=filled and kept and not clashes, givens_kept=kept, conflicts=clashes)
