"""Training states that the sampler itself produces. Knows no optimizer and no task.

A pool keeps one canvas a slot and walks it through real denoising: the logits that the loss is taken on also drive
acceptance, re-noising and self-conditioning, and the canvas they leave behind is the slot's next training example.
So the model learns on the states that it meets when it generates (its own mistakes included) at no extra pass.
A slot starts from the answer corrupted at a uniform level, or from pure noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import sampling
from engine.config import GenerationConfig


@dataclass(frozen=True)
class Batch:
    """Rows of a task: prompt ids (B, P) padded on the left, where they are present, and target canvases (B, C)."""

    ids: Tensor
    present: Tensor
    target: Tensor


PURE_NOISE = 0.2  # share of the slots that start from nothing but noise
Draw = Callable[[int], Batch]


class Pool:
    """``size`` canvases on their way from noise to the answer."""

    def __init__(self, draw: Draw, size: int, vocab_size: int, generator: torch.Generator) -> None:
        self.draw = draw
        self.vocab_size = vocab_size
        self.generator = generator
        self.settings = GenerationConfig()
        steps = range(self.settings.max_denoising_steps)
        self.temperatures = torch.tensor([self.settings.temperature(step) for step in steps])
        batch = draw(size)
        self.ids, self.present, self.target = batch.ids, batch.present, batch.target
        self.canvas = self._start(batch.target)
        self.soft = torch.zeros(*self.canvas.shape, vocab_size)
        self.step = torch.zeros(size, dtype=torch.long)
        self.renewed = torch.ones(size, dtype=torch.bool)  # slots that hold another example than a step ago

    def _start(self, target: Tensor) -> Tensor:
        noise = sampling.uniform_tokens(tuple(target.shape), self.vocab_size, self.generator)
        rows = torch.rand(len(target), 2, generator=self.generator)
        keep = torch.where(rows[:, 0] < PURE_NOISE, 0.0, rows[:, 1])[:, None]
        return torch.where(torch.rand(target.shape, generator=self.generator) < keep, target, noise)

    @torch.no_grad()
    def advance(self, logits: Tensor, retire: float) -> float:
        """One denoising step on every canvas with the logits (B, C, V) just computed; renew those that are finished.

        Args:
            retire: probability that an unfinished canvas gives up its slot.

        Returns:
            The share of canvases whose argmax is the target.
        """
        scaled = logits / self.temperatures[self.step][:, None, None]
        entropy = sampling.token_entropy(scaled)
        right = (scaled.argmax(dim=-1) == self.target).all(dim=-1)
        finished = right & (entropy.mean(dim=-1) < self.settings.confidence_threshold)
        finished |= torch.rand(len(right), generator=self.generator) < retire
        finished |= self.step >= len(self.temperatures) - 1
        accepted = sampling.accept_mask(entropy, self.settings.entropy_bound)
        noise = sampling.uniform_tokens(tuple(self.canvas.shape), self.vocab_size, self.generator)
        self.canvas = sampling.renoise(sampling.sample_candidates(scaled, self.generator), accepted, noise)
        self.soft = torch.softmax(scaled, dim=-1)
        self.step += 1
        self.renewed = finished
        if count := int(finished.sum()):
            fresh = self.draw(count)
            self.ids[finished], self.present[finished], self.target[finished] = fresh.ids, fresh.present, fresh.target
            self.canvas[finished] = self._start(fresh.target)
            self.soft[finished] = 0.0
            self.step[finished] = 0
        return float(right.float().mean())
