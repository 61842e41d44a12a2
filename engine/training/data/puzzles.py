"""Sudoku examples for training an adapter: our own puzzles or a file's, in the format and tokens of any model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SafelightError
from engine.files import read_text
from engine.models.model import Model
from engine.tasks import sudoku
from engine.training.data.corpus import Pair, PuzzleStream, left_padded
from engine.training.data.rollout import TrainingBatch
from engine.training.minimal import PUZZLE_BYTES
from engine.training.recipes.adapter import Form

LONGEST_LINE = 2_000  # characters, other columns included
HELD_OUT_SHARE = 10  # at most one puzzle of a file in this many is kept for measuring
FIELD = re.compile(r"[,;\t ]+")


class FilePuzzles(PuzzleStream):
    """Draws puzzles of a file at random."""

    def __init__(self, pairs: list[Pair], seed: int) -> None:
        super().__init__(seed)
        self.pairs = pairs

    def puzzle(self) -> Pair:
        return self.pairs[int(self.rng.integers(len(self.pairs)))]


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
