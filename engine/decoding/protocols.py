"""What a way of decoding is, and what it needs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.config import GenerationConfig, ModelConfig
from engine.events import Event
from engine.layers.kv_cache import KVCache
from engine.types import Cancel


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


def keep_texts(cache: KVCache, texts: Sequence[Tensor]) -> int:
    """Cut the cache back to what it shares with the texts, one after the other.

    The first one may be kept in part, the others are kept whole or not at all: a canvas is always read in one go, so
    that its numbers come out the same each time.

    Returns:
        How many tokens stay.
    """
    ids = [token for text in texts for token in text.tolist()]
    kept = cache.keep_prefix(ids)
    edge = len(texts[0])
    for text in texts[1:]:
        if edge + len(text) > kept:
            break
        edge += len(text)
    return kept if kept <= edge else cache.keep_prefix(ids[:edge])


def read(model: Denoiser, texts: Sequence[Tensor], cache: KVCache, cancel: Cancel | None = None) -> bool:
    """Append what the cache lacks of the texts, of which it holds the beginning and nothing else.

    Returns:
        As ``commit``.
    """
    held, lacking = cache.length, list[Tensor]()
    for text in texts:
        lacking += [text[held:]]
        held = max(0, held - len(text))
    return _append(model, lacking, cache, cancel)


def commit(model: Denoiser, ids: Tensor, cache: KVCache, cancel: Cancel | None = None) -> bool:
    """Append tokens (T,), T >= 0, to the cache, a piece at a time.

    Returns:
        False where ``cancel`` was set between two pieces; the cache then holds those before.
    """
    return _append(model, [ids], cache, cancel)


def _append(model: Denoiser, texts: Sequence[Tensor], cache: KVCache, cancel: Cancel | None) -> bool:
    size = cache.piece
    pieces = [text[start : start + size] for text in texts for start in range(0, len(text), size)]
    for number, piece in enumerate(pieces):
        if number and cancel is not None and cancel.is_set():
            return False
        model.prefill(piece, cache)
        cache.name(piece.tolist())
    return True
