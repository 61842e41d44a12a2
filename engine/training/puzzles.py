"""Sudoku examples for training an adapter: our own puzzles or a file's, in the format and tokens of any model."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.files import explained, read_text, write_text
from engine.models.model import Model
from engine.tasks import sudoku
from engine.training.adapter import Form

PUZZLE_BYTES = 256 * 2**20  # a million puzzles with their solutions
LONGEST_LINE = 2_000  # characters, other columns included
HELD_OUT_SHARE = 10  # at most one puzzle of a file in this many is kept for measuring
FIELD = re.compile(r"[,;\t ]+")
LINE = re.compile(r"[0-9]{1,12} [0-9]{81} [1-9]{81}")  # of our own file: number, puzzle, solution
PAD = 0  # the id before a short prompt, which nothing sees

Pair = tuple[str, str]  # puzzle and solution, 81 digits each


@dataclass(frozen=True)
class TrainingBatch:
    """Rows of a task: prompt ids (B, P) padded on the left, their presence, and target canvases (B, C)."""

    ids: Tensor
    present: Tensor
    target: Tensor


def left_padded(prompts: list[list[int]], targets: list[list[int]], length: int) -> TrainingBatch:
    """Pads the ids of prompts on the left to ``length``, and stacks them with their target canvases."""
    ids = np.full((len(prompts), length), PAD)
    present = np.zeros((len(prompts), length), dtype=bool)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt) :] = prompt
        present[row, length - len(prompt) :] = True
    return TrainingBatch(torch.from_numpy(ids), torch.from_numpy(present), torch.from_numpy(np.array(targets)))


class PuzzleStream(ABC):
    """Draws puzzles from a random stream that can be resumed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    @abstractmethod
    def puzzle(self) -> Pair:
        """Draws a puzzle and its solution."""

    def state(self) -> dict[str, Any]:
        """Returns the state of the random stream, as plain JSON."""
        return dict(self.rng.bit_generator.state)

    def restore(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state


class MadePuzzles(PuzzleStream):
    """Draws puzzles, made from minimal ones by symmetries and extra givens; both keep a unique puzzle unique.

    Args:
        path: of a file by ``minimal_puzzles``.
        givens: the fewest and the most.
    """

    def __init__(self, path: Path, seed: int, givens: tuple[int, int]) -> None:
        lines = [line.split() for line in read_lines(path)]
        self.boards = np.array([[int(ch) for ch in board] for _, board, _ in lines]).reshape(-1, 9, 9)
        self.solutions = np.array([[int(ch) for ch in solution] for _, _, solution in lines]).reshape(-1, 9, 9)
        super().__init__(seed)
        self.givens = givens

    def puzzle(self) -> Pair:
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


class FilePuzzles(PuzzleStream):
    """Draws puzzles of a file at random."""

    def __init__(self, pairs: list[Pair], seed: int) -> None:
        super().__init__(seed)
        self.pairs = pairs

    def puzzle(self) -> Pair:
        return self.pairs[int(self.rng.integers(len(self.pairs)))]


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


def read_pairs(path: Path) -> list[Pair]:
    """Reads puzzles and solutions of a text or CSV file, a pair per line; ignores other columns and a header.

    Raises:
        SafelightError: a line is invalid; it names the line and what is wrong with it.
    """
    pairs = []
    for number, line in enumerate(read_text(path, PUZZLE_BYTES).splitlines(), 1):
        if len(line) > LONGEST_LINE:
            raise SafelightError(f"{path}, line {number} has more than {LONGEST_LINE} characters; is it a puzzle file?")
        boards = [field for field in FIELD.split(line.strip().replace('"', "")) if len(field) == sudoku.SIZE]
        if not line.strip() or line.startswith("#") or (number == 1 and not boards and not re.search(r"\d{9}", line)):
            continue
        if len(boards) != 2:
            raise SafelightError(f"{path}, line {number}: expected a puzzle and its solution, 81 digits each")
        try:
            puzzle, solution = map(sudoku.parse, boards)
        except sudoku.PuzzleError as error:
            raise SafelightError(f"{path}, line {number}: {error}") from None
        if not sudoku.judge(puzzle, solution).valid:
            raise SafelightError(f"{path}, line {number}: the second board does not solve the first")
        pairs.append((puzzle, solution))
    if len(pairs) < 2:
        raise SafelightError(f"{path} has too few puzzles to train on; give 2 or more, one a line")
    return pairs


def split(pairs: list[Pair], count: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Splits pairs into those to train on and up to ``count`` others to measure with; no grid is in both."""
    solutions = sorted({solution for _, solution in pairs})
    random.Random(seed).shuffle(solutions)
    kept = set(solutions[: min(count, max(1, len(solutions) // HELD_OUT_SHARE))] if len(solutions) > 1 else [])
    held_out = [pair for pair in pairs if pair[1] in kept][:count]
    return [pair for pair in pairs if pair[1] not in kept], held_out


def fresh_pairs(count: int, seed: int) -> Iterator[Pair]:
    """Generates puzzles with 30 to 50 givens on grids of the classes that our own data omits."""
    rng = random.Random(f"measure-{seed}")
    for _ in range(count):
        made = sudoku.generate(rng, 30, 50, held_out=True)
        yield made.board, made.solution


@dataclass(frozen=True)
class Format:
    """Prompts and target canvases in a model's tokens."""

    model: Model
    form: Form

    def written(self, board: str) -> str:
        return board if self.form == "digits" else sudoku.rows(board)

    def ids(self, board: str) -> list[int]:
        """Returns the prompt's tokens."""
        return self.model.chat_ids([{"role": "user", "content": self.written(board)}])

    @property
    def end(self) -> int:
        """Returns the token that ends an answer and fills the rest of its canvas."""
        return self.model.generation_defaults.eos_token_ids[0]

    def target(self, solution: str) -> list[int]:
        """Returns the target canvas of a solution, C token ids.

        Raises:
            SafelightError: the model's canvas is too short for an answer.
        """
        answer, length = self.model.tokenizer.encode(self.written(solution)), self.model.config.canvas_length
        if len(answer) > length:
            raise SafelightError(
                f"a solution takes {len(answer)} tokens of this model, its canvas has {length}; "
                + ("use the format digits" if self.form == "rows" else "it cannot learn Sudoku in one canvas")
            )
        return answer + [self.end] * (length - len(answer))


class Examples:
    """Draws batches of puzzles in a model's tokens."""

    def __init__(self, puzzles: PuzzleStream, format: Format) -> None:
        self.puzzles, self.format = puzzles, format

    def draw(self, count: int) -> TrainingBatch:
        pairs = [self.puzzles.puzzle() for _ in range(count)]
        prompts = [self.format.ids(board) for board, _ in pairs]
        return left_padded(prompts, [self.format.target(solution) for _, solution in pairs], max(map(len, prompts)))
