"""Rows of Sudokus and of the skills as token ids, drawn from random streams. The tasks are in ``engine.tasks``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.tasks import sudoku
from engine.tasks.skills import MAX_ANSWER
from engine.text.chat_template import ChatTemplate
from engine.training.puzzles import TrainingBatch, left_padded
from small_models import skills
from small_models.made_puzzles import MadePuzzles
from small_models.tokenizer import CHAT_TEMPLATE, EOS, build_tokenizer

_MARK = "\0"
_TEMPLATE = ChatTemplate(CHAT_TEMPLATE, {"bos_token": "<bos>"})
BEFORE_MESSAGE, AFTER_MESSAGE = _TEMPLATE.render([{"role": "user", "content": _MARK}]).split(_MARK)


def prompt_text(prompt: str) -> str:
    """Returns the prompt as the chat template renders it: the turn marks around the text."""
    return BEFORE_MESSAGE + prompt + AFTER_MESSAGE


def rows_to_batch(
    tokenizer: Tokenizer, prompts: list[str], targets: list[list[int]], prompt_length: int
) -> TrainingBatch:
    """Encodes rendered prompts, and stacks them with their target canvases."""
    return left_padded([encoding.ids for encoding in tokenizer.encode_batch(prompts)], targets, prompt_length)


class SudokuSource(MadePuzzles):
    """Draws puzzles with their solutions."""

    prompt_length = 96

    def __init__(self, path: Path, canvas_length: int, seed: int) -> None:
        super().__init__(path, seed, (25, 52))
        self.canvas_length, self.tokenizer = canvas_length, build_tokenizer()

    def draw(self, count: int) -> TrainingBatch:
        prompts: list[str] = []
        targets: list[list[int]] = []
        for _ in range(count):
            board, solution = self.puzzle()
            prompts.append(prompt_text(sudoku.to_prompt(board)))
            answer = self.tokenizer.encode(sudoku.rows(solution)).ids
            targets.append(answer + [EOS] * (self.canvas_length - len(answer)))
        return rows_to_batch(self.tokenizer, prompts, targets, self.prompt_length)


SHORT_PROMPT = 48  # characters; nearly all prompts are shorter


class RowStream:
    """A random stream that rows are drawn from, named by its seed and name."""

    def __init__(self, seed: int, name: object) -> None:
        self.rng = random.Random(f"{seed}-{name}")

    def state(self) -> list[Any]:
        """Returns the state of the random stream, as plain JSON."""
        return list(self.rng.getstate())

    def restore(self, state: list[Any]) -> None:
        version, internal, gauss = state
        self.rng.setstate((version, tuple(internal), gauss))


class SkillSource(RowStream):
    """Draws a question and one block of its answer; earlier blocks of a long answer are part of the prefix.

    Rows of a source have one length, so there are two sources: short prompts with the first block of their answer, and
    the rest (long prompts, later blocks).
    """

    def __init__(self, canvas_length: int, seed: int, long: bool) -> None:
        super().__init__(seed, long)
        self.canvas_length = canvas_length
        self.long = long
        self.tokenizer = build_tokenizer()
        self.prompt_length = SHORT_PROMPT + 8  # the turn marks take 7
        if long:
            self.prompt_length += MAX_ANSWER // canvas_length * canvas_length

    def draw(self, count: int) -> TrainingBatch:
        prompts: list[str] = []
        targets: list[list[int]] = []
        while len(prompts) < count:
            example = skills.sample(self.rng, "train")
            blocks = len(example.answer) // self.canvas_length  # number of whole blocks before the one with the end
            block = self.rng.randint(1, blocks) if self.long and blocks else 0
            if self.long != (block > 0 or len(example.prompt) > SHORT_PROMPT):
                continue
            start = block * self.canvas_length
            answer = self.tokenizer.encode(example.answer[start : start + self.canvas_length]).ids
            prompts.append(prompt_text(example.prompt) + example.answer[:start])
            targets.append(answer + [EOS] * (self.canvas_length - len(answer)))
        return rows_to_batch(self.tokenizer, prompts, targets, self.prompt_length)
