"""Sudoku examples for training an adapter: fresh puzzles, in the format and tokens of any model."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.models.model import Model
from engine.tasks import sudoku
from engine.training.adapter import Form

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


def made_pairs(name: str, count: int, givens: tuple[int, int], *, held_out: bool = False) -> list[Pair]:
    """Makes puzzles with one solution; equal names make equal ones.

    Args:
        givens: the fewest and the most.
        held_out: of the classes of grids that are kept for measuring; else of the others.
    """
    rng, pairs = random.Random(name), list[Pair]()
    while len(pairs) < count:
        made = sudoku.generate(rng, *givens, held_out=held_out)
        if held_out or not sudoku.is_held_out(made.solution):
            pairs.append((made.board, made.solution))
    return pairs


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

    def batch(self, pairs: list[Pair]) -> TrainingBatch:
        prompts = [self.ids(board) for board, _ in pairs]
        return left_padded(prompts, [self.target(solution) for _, solution in pairs], max(map(len, prompts)))
