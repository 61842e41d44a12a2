"""The rule that decides when a canvas is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StableAndConfident:
    """Argmax unchanged over ``stability_threshold`` steps, and mean entropy (nats) below ``confidence_threshold``.

    It is called with the argmax canvases so far (oldest first, the current one last), each (..., C), and the entropy
    (..., C); it returns bools (...,) that are True for finished canvases.
    """

    stability_threshold: int
    confidence_threshold: float

    def __call__(self, argmax_history: Sequence[Tensor], entropy: Tensor) -> Tensor:
        confident = entropy.mean(dim=-1) < self.confidence_threshold
        if not self.stability_threshold:
            return confident
        earlier = argmax_history[:-1][-self.stability_threshold :]
        if len(earlier) < self.stability_threshold:
            return torch.zeros_like(confident)
        unchanged = [(canvas == argmax_history[-1]).all(dim=-1) for canvas in earlier]
        return confident & torch.stack(unchanged).all(dim=0)
