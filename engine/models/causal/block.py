"""One layer of a causal transformer: attention, then a gated MLP or experts, in the forms that families have.

Every row is text, for adapters.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from engine.config import LayerConfig
from engine.kernels.reference_step import rotate
from engine.layers.adapted import linear
from engine.layers.attention import Extend, Reach, mix
from engine.layers.mlp import GatedMLP, SparseMLP
from engine.layers.norm import RMSNorm
from engine.models.causal.config import CausalConfig


def norm(config: CausalConfig, size: int) -> RMSNorm:
    return RMSNorm(size, config.rms_norm_eps, adds_one=config.norms_add_one)


class CausalAttention(nn.Module):
    """Grouped-query attention."""

    def __init__(self, config: CausalConfig, layer: LayerConfig) -> None:
        super().__init__()
        self.head_dim = layer.head_dim
        self.scale = (config.query_divisor or layer.head_dim) ** -0.5
        queries, keys = config.num_attention_heads * layer.head_dim, layer.num_key_value_heads * layer.head_dim
        self.sizes = [queries, keys, keys]
        self.is_fused = config.is_fused
        if self.is_fused:
            self.qkv_proj = nn.Linear(config.hidden_size, queries + 2 * keys, bias=config.attention_bias)
        else:
            self.q_proj = nn.Linear(config.hidden_size, queries, bias=config.attention_bias)
            self.k_proj = nn.Linear(config.hidden_size, keys, bias=config.attention_bias)
            self.v_proj = nn.Linear(config.hidden_size, keys, bias=config.attention_bias)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=config.output_bias)
        normed = config.query_key_norm
        self.q_norm = norm(config, layer.head_dim) if normed else nn.Identity()
        self.k_norm = norm(config, layer.head_dim) if normed else nn.Identity()

    def forward(
        self,
        x: Tensor,
        rope: tuple[Tensor, Tensor],
        mask: Tensor | Reach | None,
        extend: Extend,
        query_scale: Tensor | None,
    ) -> Tensor:
        """Attends: x (B, T, H), rope two of (T, D), mask (T, S) True where allowed, query_scale (T, 1) -> (B, T, H)."""
        batch, length, _ = x.shape

        def heads(projected: Tensor) -> Tensor:
            return projected.view(batch, length, -1, self.head_dim).transpose(1, 2)  # (B, heads, T, D)

        queries, keys, values = map(heads, self._projected(x))
        queries = rotate(self.q_norm(queries), *rope) * self.scale
        if query_scale is not None:
            queries = queries * query_scale
        keys, values = extend(rotate(self.k_norm(keys), *rope), values)
        return linear(self.o_proj, mix(queries, keys, values, mask), length)

    def _projected(self, x: Tensor) -> Iterable[Tensor]:
        """Returns queries, keys and values, three of (B, T, heads * D)."""
        if self.is_fused:
            return torch.split(linear(self.qkv_proj, x, x.shape[-2]), self.sizes, dim=-1)
        return (linear(layer, x, x.shape[-2]) for layer in (self.q_proj, self.k_proj, self.v_proj))


class CausalBlock(nn.Module):
    """Pre-norm residual layer."""

    def __init__(self, config: CausalConfig, layer: LayerConfig) -> None:
        super().__init__()
        self.self_attn = CausalAttention(config, layer)
        if config.routing is None or layer.is_dense:
            self.mlp: nn.Module = GatedMLP(config, config.activation)
        else:
            self.mlp = SparseMLP(config, config.routing, config.activation)
        self.input_layernorm = norm(config, config.hidden_size)
        self.post_attention_layernorm = norm(config, config.hidden_size)

    def forward(
        self,
        x: Tensor,
        rope: tuple[Tensor, Tensor],
        mask: Tensor | Reach | None,
        extend: Extend,
        query_scale: Tensor | None,
    ) -> Tensor:
        """Runs the layer: x (B, T, H) -> (B, T, H)."""
        x = x + self._normed(self.self_attn(self.input_layernorm(x), rope, mask, extend, query_scale))
        return x + self._feed_forward(x)

    def _normed(self, attended: Tensor) -> Tensor:
        return attended

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.post_attention_layernorm(x), x.shape[-2])


class SandwichBlock(CausalBlock):
    """Layer that also norms the results of attention and MLP before it adds them: Gemma 3's."""

    def __init__(self, config: CausalConfig, layer: LayerConfig) -> None:
        super().__init__(config, layer)
        self.pre_feedforward_layernorm = norm(config, config.hidden_size)
        self.post_feedforward_layernorm = norm(config, config.hidden_size)

    def _normed(self, attended: Tensor) -> Tensor:
        return self.post_attention_layernorm(attended)

    def _feed_forward(self, x: Tensor) -> Tensor:
        inner = self.mlp(self.pre_feedforward_layernorm(x), x.shape[-2])
        return self.post_feedforward_layernorm(inner)
