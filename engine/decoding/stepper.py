"""How a denoising step is taken: the protocol, and what a step comes to.

The plain stepper makes the sampler's draws. It is the oracle, and what golden tests hold to the reference. The device
stepper takes the same steps, as a program on the device, with draws of its own.

Settings can change between two steps, and draws can be left out, so that a run goes on from the middle of another.
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
    """What one step came to, on the host. C positions."""

    argmax: Tokens
    candidates: Tokens
    entropy: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    next_canvas: Tokens
    converged: bool
    top: Top  # (C, K) likeliest tokens and their probabilities, if asked for


class Stepper(Protocol):
    """Takes the steps of one canvas after another."""

    sampler: Sampler
    commits_with_step: bool  # a finished canvas is read in the pass of the next one's first step

    def commit(self, ids: Tensor) -> Passes[None]:
        """A finished canvas (C,) becomes part of the cache's text, at the latest when the next one begins."""

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        """A fresh canvas (C,) behind the cache's text."""

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:
        """Step ``index`` of the canvas, 0 upward.

        Args:
            ahead: whether the next step may begin before this one's facts are looked at; not where something changes
                between the two.

        Raises:
            SafelightError: the model gave non-finite logits.
        """

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        """Between the last step of a canvas and the next ``begin``: logits (V,) of one position of any canvas (C,).

        Nothing is fed back; pins, bans and temperature are left out, and no random number is drawn.
        """

    def seed(self, seed: int) -> None:
        """Begin another random stream."""

    def skip_canvas(self) -> None:
        """Leave out the draws of a canvas's first noise."""

    def skip_step(self) -> None:
        """Leave out the draws of a step."""

    def adopt(self, sampler: Sampler) -> None:
        """Other settings, between two canvases."""

    def change(self, sampler: Sampler, edits: Edits, mixed: Shares = ()) -> None:
        """Other settings, between two steps of a canvas, which is amended to them; and shares that are fed back."""
