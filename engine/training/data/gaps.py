"""Rows of texts with a gap: the text on a canvas, of which only the gap is to be written, and walks of such canvases.

The text before the gap is in the prompt or on the canvas, too. The gap has the length of its answer, or one of
``GAP_LENGTHS``: what the answer leaves of it is padding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import GAP_LENGTHS
from engine.tasks import gaps
from engine.text.outline import INSTRUCTION
from engine.training.data.corpus import EOS, PAD, RowStream, build_tokenizer, left_padded, prompt_text
from engine.training.data.rollout import POOL, Draw, Pool, TrainingBatch

PROMPT_LENGTH = 24 + gaps.MOST_TEXT  # tokens of the question with its turn marks, and of a text


class GapSource(RowStream):
    """Draws texts with a gap."""

    def __init__(self, canvas_length: int, seed: int) -> None:
        super().__init__(seed, "gaps")
        self.canvas_length, self.prompt_length = canvas_length, PROMPT_LENGTH
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> TrainingBatch:
        prompts, targets = list[list[int]](), list[list[int]]()
        slots = torch.zeros(count, self.canvas_length, dtype=torch.bool)
        question = prompt_text(INSTRUCTION)
        for row in range(count):
            prefix, answer, suffix, length = self._fitting()
            before = prefix if self.rng.random() < 0.5 else ""  # in the prompt
            given = prefix.removeprefix(before)
            if len(given) + length + len(suffix) > self.canvas_length:
                before, given = prefix, ""
            prompts.append(self.tokenizer.encode(question + before).ids)
            padding = [PAD] * (length - len(answer))
            canvas = [*self._ids(given), *self._ids(answer), *padding, *self._ids(suffix)]
            targets.append(canvas + [EOS] * (self.canvas_length - len(canvas)))
            slots[row, len(given) : len(given) + length] = True
        batch = left_padded(prompts, targets, self.prompt_length)
        return TrainingBatch(batch.ids, batch.present, batch.target, slots)

    def _fitting(self) -> tuple[str, str, str, int]:
        """Draws a text whose gap and suffix fit a canvas, and the length of its gap."""
        while True:
            gap = gaps.sample(self.rng, "train")
            longer = [length for length in GAP_LENGTHS if length >= len(gap.answer)]
            length = len(gap.answer) if self.rng.random() < 0.4 else self.rng.choice(longer)
            if length + len(gap.suffix) <= self.canvas_length:
                return gap.prefix, gap.answer, gap.suffix, length

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids


class GapPool(Pool):
    """Walks of canvases of which only the slots (B, C) are written; the others are pinned, as in generation."""

    NAMES = (*POOL, "slots")

    def __init__(self, draw: Draw, size: int, vocab_size: int, generator: torch.Generator, ahead: bool = False) -> None:
        super().__init__(draw, size, vocab_size, generator, ahead)
        self._pin()

    def _pin(self) -> None:
        assert self.slots is not None
        self.canvas = torch.where(self.slots, self.canvas, self.target)

    @torch.no_grad()
    def advance(self, logits: Tensor, retire: float) -> Tensor:
        assert self.slots is not None
        certain = 100.0 * F.one_hot(self.target, self.vocab_size).to(logits.dtype)
        right = super().advance(torch.where(self.slots[..., None], logits, certain), retire)
        self._pin()
        return right
