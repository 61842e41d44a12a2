"""Gated MLP, by default with tanh-approximated GELU, and the self-conditioning block built on it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import ModelConfig, VisionConfig
from engine.layers.adapted import linear
from engine.layers.norm import RMSNorm


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)), (..., H) -> (..., H)."""

    def __init__(self, config: ModelConfig | VisionConfig, activation: Callable[[Tensor], Tensor] = gelu) -> None:
        super().__init__()
        self.activation = activation
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text_rows: int = 0) -> Tensor:
        """Runs the MLP: x (..., T, H), of which the first ``text_rows`` are text -> (..., T, H)."""
        inner = self.activation(linear(self.gate_proj, x, text_rows)) * linear(self.up_proj, x, text_rows)
        return linear(self.down_proj, inner, text_rows)


class SelfConditioning(GatedMLP):
    """Adds the previous step's soft embedding to the canvas embedding; used by denoise only."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.pre_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, with_scale=False)

    def forward(self, embedded: Tensor, soft: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Conditions a canvas: embedded and soft (B, C, H); None: the zero signal of a canvas's first step."""
        if soft is not None:
            embedded = embedded + super().forward(self.pre_norm(soft))
        out: Tensor = self.post_norm(embedded)
        return out
