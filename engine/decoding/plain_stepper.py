"""Takes denoising steps in plain torch, and defines what a stepper does.

The plain stepper makes the sampler's draws. It is the oracle, and golden tests compare it to the reference. The device
stepper takes the same steps, as a program on the device, with its own draws.

Settings can change between two steps, and draws can be skipped, so that a run can go on from the middle of another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding.prefill import commit
from engine.decoding.protocols import Denoise, Passes
from engine.decoding.sampler import Edits, Sampler, Top, to_host
from engine.layers.kv_cache import KVCache
from engine.types import Tokens


@dataclass(frozen=True)
class Step:
    """The results of one step, on the host. C positions."""

    argmax: Tokens
    candidates: Tokens
    entropy: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    next_canvas: Tokens
    converged: bool
    top: Top  # (C, K) likeliest tokens and their probabilities, if requested


class PlainStepper:
    """Takes the steps of one canvas after another."""

    commits_with_step = False  # True: a finished canvas is read in the pass of the next one's first step

    def __init__(self, dtype: torch.dtype, cache: KVCache, sampler: Sampler) -> None:
        self.dtype, self.cache, self.sampler = dtype, cache, sampler  # the model's number type
        self.conditioning: Tensor | None = None  # logits (C, V) that are fed back
        self.kept = torch.zeros(0, dtype=torch.bool)  # (C,) places that stay as they are

    def commit(self, ids: Tensor) -> Passes[None]:
        """Makes a finished canvas (C,) part of the cache's text, at the latest when the next canvas begins."""
        return commit(ids, self.cache)

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        """Starts a fresh canvas (C,) behind the cache's text."""
        yield from ()  # no pass before the first step
        self.block, self.canvas, self.conditioning = block, canvas, None
        self.kept = self._pinned()
        self.history: list[Tensor] = []

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:  # noqa: ARG002
        """Takes step ``index`` of the canvas, 0 upward.

        Args:
            ahead: the next step may begin before this one's facts are read; False if something changes between the two.

        Raises:
            SafelightError: the model gave non-finite logits.
        """
        sampler = self.sampler
        wanted = Denoise(self.canvas, self.cache, self.conditioning)
        yield wanted
        logits = sampler.scale(wanted.take(), sampler.config.temperature(index), self.block, index)
        found, accepted, self.canvas = sampler.step(logits, self.canvas, self.kept)
        self.kept = accepted.mask if sampler.rule.keeps else self._pinned()
        self.history.append(found.argmax)  # all of it: a change may ask for more stable steps than before
        self.conditioning = logits.to(self.dtype)  # as the reference does: in bf16 it is fed back rounded
        return Step(
            to_host(found.argmax),
            to_host(accepted.candidates),
            found.entropy.float().cpu().numpy(),
            accepted.mask.cpu().numpy(),
            to_host(self.canvas),
            bool(accepted.is_finished) or bool(sampler.stop(self.history, found.entropy)),
            sampler.top(logits),
        )

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        """Returns logits (V,) of one position of any canvas (C,), between a canvas's last step and the next ``begin``.

        Nothing is fed back; pins, bans and temperature are not applied, and no random number is drawn.
        """
        wanted = Denoise(canvas, self.cache, None)
        yield wanted
        return wanted.take()[position].clone()

    def seed(self, seed: int) -> None:
        """Starts another random stream."""
        self.sampler.generator.manual_seed(seed)

    def skip_step(self) -> None:
        """Skips the draws of a step."""
        self.sampler.skip_step()

    def adopt(self, sampler: Sampler) -> None:
        """Changes the settings between two canvases."""
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits) -> None:
        """Changes the settings between two steps, and amends the canvas to them."""
        free = ~self._pinned()
        self.sampler = sampler
        before, self.canvas = self.canvas, sampler.amended(self.canvas, self.block, edits)
        self.kept = (self.kept & free & (before == self.canvas)) | self._pinned()

    def _pinned(self) -> Tensor:
        """Returns a mask (C,) of the pinned places, which are kept from the first step on."""
        return torch.from_numpy(self.sampler.pinned_mask(self.block)).to(self.canvas.device)
