"""Reads text into a cache: reuses what the cache holds already, and reads the rest a piece at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decoding.protocols import Decoding, Passes, Prefill
from engine.decoding.run import Run
from engine.events import PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.layers.masks import CAUSAL, Blocks
from engine.types import Cancel


def read_prompt(run: Run, room: int, unread: int = 0, blocks: Blocks = CAUSAL) -> Decoding[bool]:
    """Reads the prompt of a run into its cache, and yields the event of that.

    Args:
        room: tokens that the run may add.
        unread: how many of the prompt's last tokens are left out; the run reads them itself.
        blocks: in which it is read; only whole ones are reused.

    Returns:
        False if ``cancel`` was set before all was read; then there is no event.
    """
    started, length, cache = time.perf_counter(), len(run.prompt), run.cache
    text = run.prompt[: length - unread]
    kept = reuse_prefix(cache, [text], blocks)
    cache.reserve(length + room)
    is_read = yield from prefill([text], cache, run.cancel)
    if is_read:
        yield PrefillFinished(length, kept, time.perf_counter() - started)
    return is_read


def reuse_prefix(cache: KVCache, texts: Sequence[Tensor], blocks: Blocks = CAUSAL) -> int:
    """Cuts the cache back to the part that it shares with the texts, one after the other.

    The first text may be kept in part. Each other text is kept whole or not at all: a canvas is always read in one
    pass, so that its numbers are the same each time.

    Args:
        blocks: in which they are read.

    Returns:
        The number of tokens that stay.
    """
    ids = [token for text in texts for token in text.tolist()]
    kept = cache.keep_prefix(ids, blocks)
    edge = len(texts[0])
    for text in texts[1:]:
        if edge + len(text) > kept:
            break
        edge += len(text)
    return kept if kept <= edge else cache.keep_prefix(ids[:edge], blocks)


def prefill(texts: Sequence[Tensor], cache: KVCache, cancel: Cancel | None = None) -> Passes[bool]:
    """Appends the rest of the texts to a cache, which holds their beginning and nothing else.

    Returns:
        False if ``cancel`` was set between two pieces; the cache then holds those before.
    """
    held, is_first = cache.length, True
    for text in texts:
        lacking, held = text[held:], max(0, held - len(text))
        for piece in torch.split(lacking, cache.pieces(len(lacking))):
            if not is_first and cancel is not None and cancel.is_set():
                return False
            yield from _append(piece, cache)
            is_first = False
    return True


def commit(ids: Tensor, cache: KVCache) -> Passes[None]:
    """Appends tokens (T,), T >= 0, to the cache, a piece at a time."""
    for piece in torch.split(ids, cache.pieces(len(ids))):
        yield from _append(piece, cache)


def _append(piece: Tensor, cache: KVCache) -> Passes[None]:
    yield Prefill(piece, cache)
    cache.record_ids(piece.tolist())
