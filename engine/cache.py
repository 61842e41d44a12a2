"""Keys and values of the committed text, for one sequence. Knows nothing of how they are computed.

Full-attention layers keep every token. Sliding layers need the last ``sliding_window - 1``; they keep ``SLACK``
more, so that the text can be cut back a little (an edited turn) without prefilling it all again.
Buffers have room behind the committed text: a denoising canvas writes its keys and values there and
attends to one contiguous view, without a copy of the prefix and without becoming part of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.layers.attention import Extend

SLACK = 512  # tokens a sliding layer keeps beyond its window
GROWTH = 512  # tokens by which buffers grow


class _LayerCache:
    """Buffers (1, heads, capacity, D) holding the tokens ``base`` .. ``base + stored`` of the sequence."""

    def __init__(self, layer: LayerConfig, window: int, device: torch.device, dtype: torch.dtype) -> None:
        self.visible = window - 1 if layer.is_sliding else None  # committed tokens a canvas sees; None: all
        self.base = 0
        self.stored = 0
        shape = (1, layer.num_key_value_heads, 0, layer.head_dim)
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty(shape, device=device, dtype=dtype)

    def _reserve(self, extra: int) -> None:
        """Make room for ``extra`` tokens behind the stored ones, letting go of what slid out of reach."""
        drop = 0
        if self.visible is not None:
            drop = max(0, self.stored - self.visible - SLACK)
        if not drop and self.stored + extra <= self.keys.shape[2]:
            return
        kept = self.stored - drop
        capacity = self.keys.shape[2]
        if kept + extra > capacity:
            capacity = kept + extra + GROWTH
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty((1, old.shape[1], capacity, old.shape[3]))
            new[:, :, :kept] = old[:, :, drop : self.stored]
            setattr(self, name, new)
        self.base, self.stored = self.base + drop, kept

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new tokens behind the stored ones and return the visible prefix with them, (1, heads, S, D)."""
        self._reserve(keys.shape[2])
        end = self.stored + keys.shape[2]
        self.keys[:, :, self.stored : end] = keys
        self.values[:, :, self.stored : end] = values
        first = 0 if self.visible is None else max(0, self.stored - self.visible)
        return self.keys[:, :, first:end], self.values[:, :, first:end]


class KVCache:
    """Cache of one sequence; made by ``model.new_cache()``."""

    def __init__(self, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.length = 0  # committed tokens
        self._window = config.sliding_window
        self._layers = [_LayerCache(layer, config.sliding_window, device, dtype) for layer in config.layers]
        self._device = device

    def appender(self, index: int) -> Extend:
        """``extend`` for prefill: what it writes is kept once ``advance`` is called."""
        return self._layers[index].extend

    onlooker = appender  # a canvas writes to the same room, and nobody advances

    def advance(self, count: int) -> None:
        """Count the tokens that every layer has just written as committed."""
        self.length += count
        for layer in self._layers:
            layer.stored += count

    def truncate(self, length: int) -> None:
        """Forget the text from token ``length`` on.

        Raises:
            SafelightError: a sliding layer no longer holds the window before that place; start a new cache.
        """
        if not 0 <= length <= self.length:
            raise SafelightError(f"cannot cut a cache of {self.length} tokens to {length}")
        for layer in self._layers:
            if layer.visible is not None and layer.base > max(0, length - layer.visible):
                raise SafelightError(f"the cache no longer holds the {layer.visible} tokens before token {length}")
        for layer in self._layers:
            layer.stored = length - layer.base
        self.length = length

    def causal_mask(self, kind: str, count: int) -> Tensor | None:
        """Who may look at whom when ``count`` tokens are appended: (count, visible prefix + count), True to look."""
        prefix = self.length if kind == "full_attention" else min(self.length, self._window - 1)
        query = torch.arange(prefix, prefix + count, device=self._device)[:, None]
        key = torch.arange(prefix + count, device=self._device)[None, :]
        mask = key <= query
        if kind == "sliding_attention":
            mask &= key > query - self._window
        return mask
