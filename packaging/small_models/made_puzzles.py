"""Many puzzles of few: minimal ones in a file, varied by symmetries and extra givens."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine.files import explained, read_text, write_text
from engine.tasks import sudoku

PUZZLE_BYTES = 256 * 2**20  # a million puzzles with their solutions
LINE = re.compile(r"[0-9]{1,12} [0-9]{81} [1-9]{81}")  # number, puzzle, solution


class MadePuzzles:
    """Draws puzzles, made from minimal ones by symmetries and extra givens; both keep a unique puzzle unique.

    Args:
        path: of a file by ``minimal_puzzles``.
        givens: the fewest and the most.
    """

    def __init__(self, path: Path, seed: int, givens: tuple[int, int]) -> None:
        lines = [line.split() for line in read_lines(path)]
        self.boards = np.array([[int(ch) for ch in board] for _, board, _ in lines]).reshape(-1, 9, 9)
        self.solutions = np.array([[int(ch) for ch in solution] for _, _, solution in lines]).reshape(-1, 9, 9)
        self.rng = np.random.default_rng(seed)
        self.givens = givens

    def puzzle(self) -> tuple[str, str]:
        """Draws a puzzle and its solution, 81 digits each."""
        rng = self.rng
        pick = rng.integers(len(self.boards))
        order = [np.concatenate([3 * band + rng.permutation(3) for band in rng.permutation(3)]) for _ in range(2)]
        digits = np.concatenate([[0], rng.permutation(9) + 1])
        board, solution = (digits[grid[pick][order[0]][:, order[1]]] for grid in (self.boards, self.solutions))
        if rng.integers(2):
            board, solution = board.T, solution.T
        board, solution = board.flatten(), solution.flatten()
        blanks = np.flatnonzero(board == 0)
        extra = rng.integers(self.givens[0], self.givens[1] + 1) - (81 - len(blanks))
        if extra > 0:
            shown = rng.choice(blanks, size=extra, replace=False)
            board[shown] = solution[shown]
        text = (np.stack([board, solution]) + ord("0")).astype(np.uint8).tobytes().decode()
        return text[: sudoku.SIZE], text[sudoku.SIZE :]

    def state(self) -> dict[str, Any]:
        """Returns the state of the random stream, as plain JSON."""
        return dict(self.rng.bit_generator.state)

    def restore(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state


def minimal_puzzles(count: int, path: Path) -> Iterator[int]:
    """Writes ``count`` unique minimal puzzles to ``path``, none of them of the classes that are held out.

    Yields the number written so far; continues after the end of an interrupted file. About 15 ms per puzzle.
    """
    lines = read_lines(path)
    done, index = len(lines), int(lines[-1].split()[0]) + 1 if lines else 0
    write_text(path, "".join(f"{line}\n" for line in lines))
    try:
        with path.open("a") as file:
            while done < count:
                rng = random.Random(f"base-{index}")
                solution = sudoku.random_solution(rng)
                if not sudoku.is_held_out(solution):
                    file.write(f"{index} {sudoku.dig(solution, 0, rng).board} {solution}\n")
                    done += 1
                    yield done
                index += 1
    except OSError as fault:
        raise explained(fault, path) from fault


def read_lines(path: Path) -> list[str]:
    """Reads the complete lines of a file of minimal puzzles; the last line of a killed run may be incomplete."""
    if not path.exists():
        return []
    return [line for line in read_text(path, PUZZLE_BYTES).splitlines() if LINE.fullmatch(line)]
