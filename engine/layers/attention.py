"""Grouped-query attention with normed queries, keys and values. Knows neither cache policy nor the meaning of masks.

The caller supplies earlier keys and values: ``extend`` takes a layer's new ones and returns all that queries may see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine import kernels
from engine.config import LayerConfig, ModelConfig
from engine.kernels import cpu, cpu_norms
from engine.kernels.reference_step import rotate
from engine.layers.adapted import linear
from engine.layers.norm import RMSNorm

Extend = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Reach(Protocol):
    """Used in place of a mask: attends with each query to its own keys."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends with queries (B, heads, T, D) -> (B, T, heads * D)."""


@dataclass(frozen=True)
class Span:
    """Used in place of a mask: for each sequence, the keys from ``bounds[..., 0]`` to ``bounds[..., 1]``.

    bounds: (B, 2) int32 on the device, not read back. Queries are the last of these keys. A canvas attends to its
    prefix and itself, thus to all keys. Text before it, the first ``text_rows`` queries, attends to keys up to its own
    position, at most ``window``, including keys before the first bound.
    """

    bounds: Tensor
    text_rows: int = 0
    window: int | None = None

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends: queries (B, heads, T, D), buffers of keys and values (B, kv_heads, S, D) -> (B, T, heads * D)."""
        each = [
            kernels.attend(*sequence, self.text_rows, self.window)
            for sequence in zip(queries, keys, values, self.bounds, strict=True)
        ]
        return each[0][None] if len(each) == 1 else torch.stack(each)


@dataclass(frozen=True)
class ImageSpan(Span):
    """A span whose queries are an image's: each attends to all of them, and to earlier text as text does."""

    end: int = 0  # the second bound, on the host
    mask: Tensor | None = None  # (T, S) over the S keys before ``end``, for layers with a window

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends as ``Span.attend``, for one sequence."""
        if self.mask is None:
            return kernels.attend(queries[0], keys[0], values[0], self.bounds[0], 0, None)[None]
        seen = slice(self.end - self.mask.shape[1], self.end)
        mixed = attend(queries, keys[:, :, seen], values[:, :, seen], self.mask)
        return mixed.transpose(1, 2).flatten(2)


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Returns softmax(q k^T) v over (B, heads, T, D), unscaled; keys may have fewer heads; mask True: allowed.

    With gradients the product is written out: on a CPU the fused kernel's backward takes three times as long.
    """
    training = torch.is_grad_enabled() and queries.requires_grad
    groups = queries.shape[1] // keys.shape[1]
    if not training and queries.device.type == "cpu":
        return cpu.attend(queries, keys, values, mask)
    if groups > 1:
        keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
    if not training:
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
    scores = (queries @ keys.transpose(-1, -2)).float()
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return torch.softmax(scores, dim=-1).to(values.dtype) @ values


def mix(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | Reach | None) -> Tensor:
    """Attends as ``attend``, by a mask or what stands in its place -> (B, T, heads * D)."""
    if mask is None or isinstance(mask, Tensor):
        return attend(queries, keys, values, mask).transpose(1, 2).flatten(2)
    return mask.attend(queries, keys, values)


def normed_heads(norm: RMSNorm, x: Tensor, size: int, rope: tuple[Tensor, Tensor] | None) -> Tensor:
    """Norms the heads of x (B, T, heads * size), and rotates them by two of (T, size) -> (B, heads, T, size)."""
    if len(x) == 1 and cpu_norms.serves(x, size) and (rope is None or cpu_norms.rotates(rope, x.shape[1], size)):
        return cpu_norms.norm_heads(x[0], size, norm.weight, rope, norm.eps)[None]
    normed: Tensor = norm(x.view(*x.shape[:2], -1, size).transpose(1, 2))
    return normed if rope is None else rotate(normed, *rope)


class Attention(nn.Module):
    """One layer's attention. Full-attention layers have no ``v_proj``: values are the unnormed key projection."""

    v_proj: nn.Linear | None

    def __init__(self, config: ModelConfig, layer: LayerConfig) -> None:
        super().__init__()
        self.head_dim = layer.head_dim
        queries = config.num_attention_heads * layer.head_dim
        keys = layer.num_key_value_heads * layer.head_dim
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False) if layer.is_sliding else None
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(layer.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(layer.head_dim, config.rms_norm_eps)
        self.v_norm = RMSNorm(layer.head_dim, config.rms_norm_eps, with_scale=False)

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | Reach | None, extend: Extend, text_rows: int
    ) -> Tensor:
        """Attends: x (B, T, H); rope two of (T, D); mask broadcastable to (B, heads, T, S), True where allowed -> (B,
        T, H).

        The first ``text_rows`` of the T are text, the rest a canvas.
        """
        raw_keys = linear(self.k_proj, x, text_rows)
        raw_values = linear(self.v_proj, x, text_rows) if self.v_proj is not None else raw_keys
        queries = normed_heads(self.q_norm, linear(self.q_proj, x, text_rows), self.head_dim, rope)
        keys = normed_heads(self.k_norm, raw_keys, self.head_dim, rope)
        keys, values = extend(keys, normed_heads(self.v_norm, raw_values, self.head_dim, None))
        return linear(self.o_proj, mix(queries, keys, values, mask), text_rows)
