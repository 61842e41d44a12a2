"""What a way of decoding is, and what it needs of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import GenerationConfig, ModelConfig
from engine.events import Event

PIECE = 512  # tokens of a causal pass: more at once would need much memory for scores, and Stop would have to wait


class Cancel(Protocol):
    """A flag looked at between steps; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...


class Denoiser(Protocol):
    """The two modes of a model."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    def new_cache(self) -> KVCache: ...
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor: ...
    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Tensor | None = None) -> Tensor: ...


class Decoder(Protocol):
    """Turns a prompt (T,) into a stream of events; the cache may hold its beginning."""

    def __call__(
        self,
        model: Denoiser,
        prompt: Tensor,
        config: GenerationConfig,
        seed: int,
        cancel: Cancel | None,
        cache: KVCache,
    ) -> Iterator[Event]: ...


def commit(model: Denoiser, ids: Tensor, cache: KVCache, cancel: Cancel | None = None) -> bool:
    """Append tokens (T,), T >= 0, to the cache, ``PIECE`` at a time.

    Returns:
        False where ``cancel`` was set between two pieces; the cache then holds those before.
    """
    for start in range(0, len(ids), PIECE):
        if start and cancel is not None and cancel.is_set():
            return False
        piece = ids[start : start + PIECE]
        model.prefill(piece, cache)
        cache.name(piece.tolist())
    return True
