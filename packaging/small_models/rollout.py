"""Training states that the sampler produces. Knows no optimizer and no task.

A pool keeps one canvas per slot and denoises it as in generation. The logits used for the loss also drive acceptance,
re-noising and self-conditioning, and the resulting canvas is the slot's next training example. So the model learns on
the states that it meets when it generates (its own mistakes included) at no extra pass. A slot starts from the answer
corrupted at a uniform level, or from pure noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding import sampling
from engine.training.puzzles import TrainingBatch


@dataclass(frozen=True)
class SlotBatch(TrainingBatch):
    """Rows of decisions and gaps. ``slots`` (B, C) marks where a canvas is written; the rest of it is given."""

    slots: Tensor


PURE_NOISE = 0.2  # share of the slots that start from nothing but noise
POOL = ("ids", "present", "target", "canvas", "soft", "step")  # names of a pool's tensors
Draw = Callable[[int], TrainingBatch]


class Pool:
    """Holds ``size`` canvases during denoising. ``draw`` returns new rows."""

    NAMES: tuple[str, ...] = POOL
    slots: Tensor | None  # None: the whole canvas is written
    looks: Tensor | None = None  # no token has evidence to look up

    def __init__(self, draw: Draw, size: int, vocab_size: int, generator: torch.Generator) -> None:
        self.draw = draw
        self.vocab_size = vocab_size
        self.generator = generator
        self.settings = GenerationConfig()
        batch = draw(size)
        self.ids, self.present, self.target = batch.ids, batch.present, batch.target
        self.slots = batch.slots if isinstance(batch, SlotBatch) else None
        steps = range(self.settings.max_denoising_steps)
        self.temperatures = torch.tensor([self.settings.temperature(step) for step in steps])
        self.canvas = self._start(batch.target)
        self.soft = torch.zeros(*self.canvas.shape, vocab_size)
        self.step = torch.zeros(size, dtype=torch.long)
        self.renewed = torch.ones(size, dtype=torch.bool)  # slots with another example than a step ago

    def _random(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator)

    def _start(self, target: Tensor) -> Tensor:
        noise = sampling.uniform_tokens(tuple(target.shape), self.vocab_size, self.generator)
        rows = self._random(len(target), 2)
        keep = torch.where(rows[:, 0] < PURE_NOISE, 0.0, rows[:, 1])[:, None]
        return torch.where(self._random(*target.shape) < keep, target, noise)

    @torch.no_grad()
    def advance(self, logits: Tensor, retire: float) -> Tensor:
        """Performs a denoising step on every canvas with the logits (B, C, V) just computed; renews the finished ones.

        Args:
            retire: probability that an unfinished canvas gives up its slot.

        Returns:
            The share of canvases whose argmax is the target, a tensor without dimensions.
        """
        scaled = logits / self.temperatures[self.step][:, None, None]
        entropy = sampling.token_entropy(scaled)
        right = (scaled.argmax(dim=-1) == self.target).all(dim=-1)
        finished = right & (entropy.mean(dim=-1) < self.settings.confidence_threshold)
        finished |= self._random(len(right)) < retire
        finished |= self.step >= len(self.temperatures) - 1
        accepted = sampling.accept_mask(entropy, self.settings.entropy_bound)
        noise = sampling.uniform_tokens(tuple(self.canvas.shape), self.vocab_size, self.generator)
        self.soft = torch.softmax(scaled, dim=-1)
        drawn = (self.soft / torch.empty_like(self.soft).exponential_(generator=self.generator)).argmax(dim=-1)
        self.canvas = sampling.renoise(drawn, accepted, noise)
        self.step = self.step + 1
        self._renew(finished, retire)
        return right.float().mean()

    def _renew(self, finished: Tensor, retire: float) -> None:  # noqa: ARG002
        """Replaces finished rows, (B,), by new ones."""
        self.renewed = finished
        if count := int(finished.sum()):
            fresh = self.draw(count)
            self.ids = placed(self.ids, finished, fresh.ids)
            self.present = placed(self.present, finished, fresh.present)
            self.target = placed(self.target, finished, fresh.target)
            if self.slots is not None and isinstance(fresh, SlotBatch):
                self.slots = placed(self.slots, finished, fresh.slots)
            self.canvas = placed(self.canvas, finished, self._start(fresh.target))
            self.soft = self.soft.masked_fill_(finished[:, None, None], 0.0)
            self.step = self.step.masked_fill_(finished, 0)


def placed(rows: Tensor, chosen: Tensor, fresh: Tensor) -> Tensor:
    """Replaces the chosen rows of (B, ...), given by (B,), by fresh ones."""
    rows[chosen] = fresh
    return rows
