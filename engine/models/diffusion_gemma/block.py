"""One transformer layer: attention, then a dense MLP and the experts in parallel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.config import LayerConfig, ModelConfig
from engine.layers.attention import Attention, Extend, Reach
from engine.layers.joint_rows import Segments
from engine.layers.mlp import Experts, GatedMLP, Router
from engine.layers.norm import RMSNorm


class Block(nn.Module):
    """One layer. Both modes share its weights except ``layer_scalar``, of which each mode has its own."""

    def __init__(self, config: ModelConfig, layer: LayerConfig) -> None:
        super().__init__()

        def norm() -> RMSNorm:
            return RMSNorm(config.hidden_size, config.rms_norm_eps)

        self.self_attn = Attention(config, layer)
        self.mlp = GatedMLP(config)
        self.router = Router(config)
        self.experts = Experts(config)
        self.input_layernorm = norm()
        self.post_attention_layernorm = norm()
        self.pre_feedforward_layernorm = norm()
        self.post_feedforward_layernorm = norm()
        self.post_feedforward_layernorm_1 = norm()
        self.pre_feedforward_layernorm_2 = norm()
        self.post_feedforward_layernorm_2 = norm()
        self.layer_scalar = nn.Parameter(torch.ones(1))
        self.causal_layer_scalar = nn.Parameter(torch.ones(1))

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | Reach | None, extend: Extend, text_rows: int
    ) -> Tensor:
        """Runs the layer: x (B, T, H), of which the first ``text_rows`` are text and the rest a canvas -> (B, T, H)."""
        attended = self.self_attn(self.input_layernorm(x), rope, mask, extend, text_rows)
        x = self.post_attention_layernorm.plus(attended, x)
        dense = self.post_feedforward_layernorm_1(self.mlp(self.pre_feedforward_layernorm(x), text_rows))
        tokens = x.reshape(-1, x.shape[-1])  # (B*T, H)
        weights, chosen = self.router(tokens, mask.rows if isinstance(mask, Segments) else ())
        sparse = self.experts(self.pre_feedforward_layernorm_2(tokens), weights, chosen).view_as(x)
        both = self.post_feedforward_layernorm_2.plus(sparse, dense)
        if text_rows == 0:
            return self.post_feedforward_layernorm.plus(both, x, self.layer_scalar)
        if text_rows == x.shape[1]:
            return self.post_feedforward_layernorm.plus(both, x, self.causal_layer_scalar)
        x = self.post_feedforward_layernorm.plus(both, x)
        return torch.cat([x[:, :text_rows] * self.causal_layer_scalar, x[:, text_rows:] * self.layer_scalar], dim=1)
