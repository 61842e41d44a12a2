"""Rows of texts with a gap: the text on a canvas, of which only the gap is to be written, and walks of such canvases.

A row has one gap, and the text before it may be in the prompt. Or it has as many texts with a gap each as fit a canvas:
the prompt is short, so these are learnt from at half the cost. A gap has the length of its answer, or one of
``GAP_LENGTHS``: what the answer leaves of it is padding.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import GAP_LENGTHS
from engine.text.outline import INSTRUCTION
from engine.training.puzzles import left_padded
from small_models import gaps
from small_models.rollout import POOL, Draw, Pool, SlotBatch
from small_models.rows import RowStream, prompt_text
from small_models.tokenizer import EOS, PAD, build_tokenizer

ASKED = 23  # tokens of the question with its turn marks
PROMPT_LENGTH = ASKED + gaps.MAX_TEXT
EXACT = 0.5  # share of the gaps that have the length of their answer
OFTEN = (8, 4, 1)  # how often a gap has each of ``GAP_LENGTHS`` otherwise
WEIGHTS = {"series": 5, "sum": 5, "capitals": 3, "table": 3, "phrase": 6, "brackets": 1, "calendar": 1}
"""How often each kind of text is drawn: those that are learnt last most."""
Drawn = tuple[gaps.GapExample, int]
"""A text with a gap, and the length of the gap on its canvas, in tokens."""


class GapSource(RowStream):
    """Draws texts with a gap. ``several``: as many as fit a canvas, on lines of their own."""

    def __init__(self, canvas_length: int, seed: int, several: bool = False) -> None:
        super().__init__(seed, "several gaps" if several else "gaps")
        self.canvas_length, self.several = canvas_length, several
        self.prompt_length = ASKED if several else PROMPT_LENGTH
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> SlotBatch:
        prompts, targets = list[list[int]](), list[list[int]]()
        slots = torch.zeros(count, self.canvas_length, dtype=torch.bool)
        question = prompt_text(INSTRUCTION)
        for row in slots:
            before, texts = self._texts()
            prompts.append(self.tokenizer.encode(question + before).ids)
            canvas = list[int]()
            for gap, length in texts:
                canvas += self._ids("\n" + gap.prefix if canvas else gap.prefix)
                row[len(canvas) : len(canvas) + length] = True
                canvas += [*self._ids(gap.answer), *[PAD] * (length - len(gap.answer)), *self._ids(gap.suffix)]
            targets.append(canvas + [EOS] * (self.canvas_length - len(canvas)))
        batch = left_padded(prompts, targets, self.prompt_length)
        return SlotBatch(batch.ids, batch.present, batch.target, slots)

    def _texts(self) -> tuple[str, list[Drawn]]:
        """Draws a row: what stands in the prompt, and the texts on the canvas."""
        gap, length = self._drawn()
        if not self.several:
            while length + len(gap.suffix) > self.canvas_length:
                gap, length = self._drawn()
            if self.rng.random() < 0.5 or _size(gap, length) > self.canvas_length:
                return gap.prefix, [(replace(gap, prefix=""), length)]
            return "", [(gap, length)]
        room, texts = self.canvas_length, list[Drawn]()
        while not texts or _size(gap, length) <= room:
            if _size(gap, length) <= room:
                texts.append((gap, length))
                room -= _size(gap, length) + 1  # a line feed
            gap, length = self._drawn()
        return "", texts

    def _drawn(self) -> Drawn:
        gap = gaps.sample(self.rng, "train", WEIGHTS)
        if self.rng.random() < EXACT:
            return gap, len(gap.answer)
        fitting = [length for length in GAP_LENGTHS if length >= len(gap.answer)]
        return gap, self.rng.choices(fitting, OFTEN[-len(fitting) :])[0]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids


def _size(gap: gaps.GapExample, length: int) -> int:
    """Returns the tokens of a text with a gap of ``length`` tokens."""
    return len(gap.prefix) + length + len(gap.suffix)


class GapPool(Pool):
    """Walks of canvases of which only the slots (B, C) are written; the others are pinned, as in generation."""

    NAMES = (*POOL, "slots")

    def __init__(self, draw: Draw, size: int, vocab_size: int, generator: torch.Generator) -> None:
        super().__init__(draw, size, vocab_size, generator)
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
