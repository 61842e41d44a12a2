"""When a canvas is finished: small frozen callables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Stopping(Protocol):
    """Looks at the argmax canvases so far (oldest first, the current one last, each (C,)) and the entropy (C,)."""

    def __call__(self, argmax_history: Sequence[Tensor], entropy: Tensor) -> bool: ...


@dataclass(frozen=True)
class StableAndConfident:
    """Argmax unchanged over ``stability_threshold`` steps, and mean entropy (nats) below ``confidence_threshold``."""

    stability_threshold: int
    confidence_threshold: float

    def __call__(self, argmax_history: Sequence[Tensor], entropy: Tensor) -> bool:
        earlier = argmax_history[:-1][-self.stability_threshold :] if self.stability_threshold else ()
        stable = len(earlier) == self.stability_threshold and all(
            bool((canvas == argmax_history[-1]).all()) for canvas in earlier
        )
        return stable and bool(entropy.mean() < self.confidence_threshold)
