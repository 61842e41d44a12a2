"""Gated MLP, by default with tanh-approximated GELU, and the self-conditioning block built on it."""

from __future__ import annotations

from torch import Tensor, nn

from engine.config import GELU, Activation, ModelConfig, VisionConfig
from engine.kernels.reference import activate
from engine.layers.adapted import linear
from engine.layers.norm import RMSNorm


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)), (..., H) -> (..., H); ``width`` None: as wide as the config says."""

    def __init__(
        self, config: ModelConfig | VisionConfig, activation: Activation = GELU, width: int | None = None
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        width = config.intermediate_size if width is None else width
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text_rows: int = 0) -> Tensor:
        """Runs the MLP: x (..., T, H), of which the first ``text_rows`` are text -> (..., T, H)."""
        inner = activate(linear(self.gate_proj, x, text_rows), self.activation) * linear(self.up_proj, x, text_rows)
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
        return self.post_norm(embedded)
