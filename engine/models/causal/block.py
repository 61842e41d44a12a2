"""One layer of a dense causal transformer: attention, then a gated MLP, in the forms that published families have."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import LayerConfig
from engine.kernels.rope import rotate
from engine.layers.adapted import linear
from engine.layers.attention import Extend, Reach, mix
from engine.layers.mlp import GatedMLP, gelu
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
        text_rows: int,
    ) -> Tensor:
        """Attends: x (B, T, H), rope two of (T, D), mask (T, S) True where allowed, query_scale (T, 1) -> (B, T, H)."""
        batch, length, _ = x.shape

        def heads(layer: nn.Module) -> Tensor:
            out = linear(layer, x, text_rows)
            return out.view(batch, length, -1, self.head_dim).transpose(1, 2)  # (B, heads, T, D)

        queries = rotate(self.q_norm(heads(self.q_proj)), *rope) * self.scale
        if query_scale is not None:
            queries = queries * query_scale
        keys, values = extend(rotate(self.k_norm(heads(self.k_proj)), *rope), heads(self.v_proj))
        return linear(self.o_proj, mix(queries, keys, values, mask), text_rows)


class CausalBlock(nn.Module):
    """Pre-norm residual layer."""

    def __init__(self, config: CausalConfig, layer: LayerConfig) -> None:
        super().__init__()
        self.self_attn = CausalAttention(config, layer)
        self.mlp = GatedMLP(config, F.silu if config.activation == "silu" else gelu)
        self.input_layernorm = norm(config, config.hidden_size)
        self.post_attention_layernorm = norm(config, config.hidden_size)

    def forward(
        self,
        x: Tensor,
        rope: tuple[Tensor, Tensor],
        mask: Tensor | Reach | None,
        extend: Extend,
        query_scale: Tensor | None,
        text_rows: int,
    ) -> Tensor:
        """Runs the layer: x (B, T, H) -> (B, T, H). The first ``text_rows`` of the T are text."""
        x = x + self._normed(self.self_attn(self.input_layernorm(x), rope, mask, extend, query_scale, text_rows))
        return x + self._feed_forward(x, text_rows)

    def _normed(self, attended: Tensor) -> Tensor:
        return attended

    def _feed_forward(self, x: Tensor, text_rows: int) -> Tensor:
        out: Tensor = self.mlp(self.post_attention_layernorm(x), text_rows)
        return out


class SandwichBlock(CausalBlock):
    """Layer that also norms the results of attention and MLP before it adds them: Gemma 3's."""

    def __init__(self, config: CausalConfig, layer: LayerConfig) -> None:
        super().__init__(config, layer)
        self.pre_feedforward_layernorm = norm(config, config.hidden_size)
        self.post_feedforward_layernorm = norm(config, config.hidden_size)

    def _normed(self, attended: Tensor) -> Tensor:
        out: Tensor = self.post_attention_layernorm(attended)
        return out

    def _feed_forward(self, x: Tensor, text_rows: int) -> Tensor:
        inner = self.mlp(self.pre_feedforward_layernorm(x), text_rows)
        out: Tensor = self.post_feedforward_layernorm(inner)
        return out
