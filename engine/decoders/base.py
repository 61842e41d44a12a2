"""What a way of decoding is, and what it needs of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import GenerationConfig, ModelConfig
from engine.events import Event


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
    """Turns a prompt (T,) into a stream of events."""

    def __call__(
        self, model: Denoiser, prompt: Tensor, config: GenerationConfig, seed: int, cancel: Cancel | None
    ) -> Iterator[Event]: ...
