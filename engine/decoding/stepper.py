"""The protocol of steppers, which take denoising steps, and the result of a step.

The plain stepper makes the sampler's draws. It is the oracle, and golden tests compare it to the reference. The device
stepper takes the same steps, as a program on the device, with its own draws.

Settings can change between two steps, and draws can be skipped, so that a run can go on from the middle of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding.protocols import Passes
from engine.decoding.sampler import Edits, Sampler, Top
from engine.forks import Shares
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


class Stepper(Protocol):
    """Takes the steps of one canvas after another."""

    sampler: Sampler
    commits_with_step: bool  # a finished canvas is read in the pass of the next one's first step

    def commit(self, ids: Tensor) -> Passes[None]:
        """Makes a finished canvas (C,) part of the cache's text, at the latest when the next canvas begins."""

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        """Starts a fresh canvas (C,) behind the cache's text."""

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:
        """Takes step ``index`` of the canvas, 0 upward.

        Args:
            ahead: the next step may begin before this one's facts are read; False if something changes between the two.

        Raises:
            SafelightError: the model gave non-finite logits.
        """

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        """Returns logits (V,) of one position of any canvas (C,), between a canvas's last step and the next ``begin``.

        Nothing is fed back; pins, bans and temperature are not applied, and no random number is drawn.
        """

    def seed(self, seed: int) -> None:
        """Starts another random stream."""

    def skip_canvas(self) -> None:
        """Skips the draws of a canvas's first noise."""

    def skip_step(self) -> None:
        """Skips the draws of a step."""

    def adopt(self, sampler: Sampler) -> None:
        """Changes the settings between two canvases."""

    def change(self, sampler: Sampler, edits: Edits, mixed: Shares = ()) -> None:
        """Changes the settings between two steps of a canvas, which is amended to them, and sets shares that are fed
        back.
        """
