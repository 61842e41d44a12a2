"""The embedded models' tokenizer, and batches of their tasks as token ids. The tasks are in ``engine.tasks``."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models

from engine.files import replacing, write_json, write_text
from engine.tasks import skills, sudoku
from engine.text.chat_template import ChatTemplate
from engine.training.data.rollout import TrainingBatch
from engine.training.minimal import read_lines

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>system", "<|turn>user", "<|turn>model", "<turn|>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127))) + "·•°±×÷«»¿¡éèàäöüßñçøåπ→"

CHAT_TEMPLATE = (
    "{#- This small model was trained on single questions: it reads the last one. -#}"
    "{{ bos_token }}<|turn>user\n{{ messages[-1]['content'] }}<turn|>\n"
    "{%- if add_generation_prompt %}{{ '\n' }}<|turn>model\n{% endif %}"
)
# the images of the last message that has any, then the text of the last one
SEEING_TEMPLATE = CHAT_TEMPLATE.replace(
    "{{ messages[-1]['content'] }}",
    "{%- set seen = namespace(parts=[]) -%}"
    "{%- for message in messages if message['content'] is not string -%}"
    "{%- set seen.parts = message['content'] | selectattr('type', 'equalto', 'image') | list -%}{%- endfor -%}"
    "{{ '\\n' }}{%- for image in seen.parts -%}<|image|>{%- endfor -%}{%- set last = messages[-1]['content'] -%}"
    "{{ last if last is string else last | map(attribute='text', default='') | join }}",
)

# from the last message of the user on: the names of the tools, the question, and the calls so far with their results
CALLING_TEMPLATE = (
    "{#- This small model was trained on single questions with a few tools: it reads the last one. -#}"
    "{%- set last = namespace(user=0) -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
    "{{ bos_token }}"
    "{%- if tools -%}{{ '<|turn>system\\n' }}"
    "{%- for tool in tools -%}<|tool>{{ tool['function']['name'] }}{%- endfor -%}{{ '<turn|>\\n' }}{%- endif -%}"
    "{{ '<|turn>user\\n' + messages[last.user]['content'] + '<turn|>\\n<|turn>model\\n' }}"
    "{%- for message in messages[last.user + 1:] -%}"
    "{%- if message['role'] == 'tool' -%}{{ '<|tool_response>' + message['content'] + '<tool_response|>' }}"
    "{%- else -%}{{ message['content'] }}{%- for call in message['tool_calls'] or [] -%}"
    "{{ '<|tool_call>call:' + call['function']['name'] + '{' }}"
    "{%- for name, value in call['function']['arguments'] | items -%}"
    "{{ name + ':' }}{%- if value is string -%}{{ '<|\"|>' + value + '<|\"|>' }}{%- else -%}{{ value | tojson }}"
    "{%- endif -%}{%- if not loop.last -%},{%- endif -%}{%- endfor -%}{{ '}<tool_call|>' }}"
    "{%- endfor -%}{%- endif -%}{%- endfor -%}"
)


def build_tokenizer(more: Sequence[str] = ()) -> Tokenizer:
    """Builds a tokenizer of 128 tokens: 9 special ones, then the characters; ``more`` special ones follow them."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *CHARACTERS, *more])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    special = [AddedToken(token, special=True, normalized=False) for token in (*SPECIAL, *more)]
    tokenizer.add_special_tokens(special)
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_tokenizer(folder: Path, more: Sequence[str] = (), template: str = CHAT_TEMPLATE) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja in the layout of released checkpoints.

    Args:
        more: special tokens of images or tools.
        template: the chat template.
    """
    with replacing(folder / "tokenizer.json") as unfinished:
        build_tokenizer(more).save(str(unfinished))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # otherwise transformers would take it for Gemma's
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    write_json(folder / "tokenizer_config.json", settings)
    write_text(folder / "chat_template.jinja", template + "\n")


EOS, PAD = 1, 0
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


def left_padded(prompts: list[list[int]], targets: list[list[int]], length: int) -> TrainingBatch:
    """Pads the ids of prompts on the left to ``length``, and stacks them with their target canvases."""
    ids = np.full((len(prompts), length), PAD)
    present = np.zeros((len(prompts), length), dtype=bool)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt) :] = prompt
        present[row, length - len(prompt) :] = True
    return TrainingBatch(torch.from_numpy(ids), torch.from_numpy(present), torch.from_numpy(np.array(targets)))


Pair = tuple[str, str]  # puzzle and solution, 81 digits each


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


class SudokuSource(PuzzleStream):
    """Draws puzzles, made from minimal ones by symmetries and extra givens; both keep a unique puzzle unique."""

    def __init__(self, path: Path, canvas_length: int, seed: int) -> None:
        lines = [line.split() for line in read_lines(path)]
        self.boards = np.array([[int(ch) for ch in board] for _, board, _ in lines]).reshape(-1, 9, 9)
        self.solutions = np.array([[int(ch) for ch in solution] for _, _, solution in lines]).reshape(-1, 9, 9)
        super().__init__(seed)
        self.canvas_length, self.seed = canvas_length, seed
        self.tokenizer = build_tokenizer()
        self.givens = (25, 52)
        self.prompt_length = 96

    def reseed(self, block: int) -> None:
        """Restarts the random stream for a block of rows, independent of earlier draws."""
        self.rng = np.random.default_rng((self.seed, block))

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
        self.seed, self.name = seed, name
        self.rng = random.Random(f"{seed}-{name}")

    def state(self) -> list[Any]:
        """Returns the state of the random stream, as plain JSON."""
        return list(self.rng.getstate())

    def restore(self, state: list[Any]) -> None:
        version, internal, gauss = state
        self.rng.setstate((version, tuple(internal), gauss))

    def reseed(self, block: int) -> None:
        """Restarts the random stream for a block of rows, independent of earlier draws."""
        self.rng = random.Random(f"{self.seed}-{self.name}-{block}")


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
            self.prompt_length += skills.MAX_ANSWER // canvas_length * canvas_length

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
