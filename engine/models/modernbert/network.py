"""ModernBERT: an encoder that sees a text in both directions. Knows neither sampling nor files.

It keeps no keys and values: each pass reads the whole text. Layers with a window see so many tokens on either side.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.kernels.rope import rotate
from engine.layers.attention import Near, mix
from engine.layers.embedding import TokenTable
from engine.layers.kv_cache import KVCache
from engine.layers.rope import cos_sin, inverse_frequencies
from engine.models.causal.config import CausalConfig
from engine.models.network import Network

WHOLE = "this model reads whole texts; it keeps nothing of them. Choose another decoder, or no block cache"


class EncoderAttention(nn.Module):
    """Attention in both directions, with one projection for queries, keys and values."""

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.heads, self.scale = config.num_attention_heads, config.layers[0].head_dim ** -0.5
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], near: Near | None) -> Tensor:
        """Attends: x (B, T, H), rope two of (T, D) -> (B, T, H); without ``near`` each row attends to all."""
        batch, length, _ = x.shape
        found = self.qkv_proj(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = found  # (B, heads, T, D) each
        out: Tensor = self.o_proj(mix(rotate(queries, *rope) * self.scale, rotate(keys, *rope), values, near))
        return out


class EncoderMLP(nn.Module):
    """down(gelu(a) * b), of the two halves of one projection."""

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        out: Tensor = self.down_proj(F.gelu(gate) * up)
        return out


class EncoderBlock(nn.Module):
    """Pre-norm residual layer. The first one does not norm before attention."""

    def __init__(self, config: CausalConfig, index: int) -> None:
        super().__init__()
        self.attn_norm = _norm(config) if index else nn.Identity()
        self.self_attn = EncoderAttention(config)
        self.mlp_norm = _norm(config)
        self.mlp = EncoderMLP(config)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], near: Near | None) -> Tensor:
        x = x + self.self_attn(self.attn_norm(x), rope, near)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class ModernBert(Network):
    """The network. Its head is a layer, a norm, the token table and a bias."""

    config: CausalConfig

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = TokenTable(config.vocab_size, config.hidden_size)
        self.embed_norm = _norm(config)
        self.layers = nn.ModuleList(EncoderBlock(config, index) for index in range(len(config.layers)))
        self.final_norm = _norm(config)
        self.head_dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.head_norm = _norm(config)
        self.head_bias = nn.Parameter(torch.zeros(config.vocab_size))

    @property
    def norm_weight(self) -> Tensor:
        return self.final_norm.weight

    def new_cache(self) -> KVCache:
        return KVCache(self.config, self.device, self.dtype)

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:  # noqa: ARG002
        raise SafelightError(WHOLE)

    @torch.inference_mode()
    def decode(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        ids, every = self.checked_text(ids, cache), torch.arange(len(ids), device=self.device)
        places = every if positions is None else positions.to(self.device)  # of the rows, which may be in any order
        is_whole = not cache.length and torch.equal(places.sort().values, every)
        if is_causal or commit or not is_whole:
            raise SafelightError(WHOLE)
        return self.head(self.run(ids[places.argsort()][None])[0, places[first_logits:]])

    def run(self, ids: Tensor) -> Tensor:
        """Reads texts (B, T) -> hidden states (B, T, H)."""
        x: Tensor = self.embed_norm(self.embed_tokens(ids))
        places = torch.arange(ids.shape[-1], device=ids.device)
        near = Near(self.config.sliding_window)
        ropes = {layer: self._rope(layer, places, x.dtype) for layer in dict.fromkeys(self.config.layers)}
        for block, layer in zip(self.layers, self.config.layers, strict=True):
            x = block(x, ropes[layer], near if layer.is_sliding else None)
        out: Tensor = self.final_norm(x)
        return out

    def head(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) in fp32 of hidden states (..., H)."""
        logits = self.embed_tokens.logits(self.head_norm(F.gelu(self.head_dense(hidden))))
        return (logits + self.head_bias).float()

    def _rope(self, layer: LayerConfig, places: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return cos_sin(places, inverse_frequencies(layer).to(places.device), dtype)


def _norm(config: CausalConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, config.rms_norm_eps, bias=False)


def build(config: ModelConfig) -> ModernBert:
    """Builds the network of a shape that this family has read; weights are not filled."""
    assert isinstance(config, CausalConfig), "another family's shape"
    return ModernBert(config)
