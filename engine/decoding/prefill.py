"""Reads text into a cache: reuses what the cache holds already, and reads the rest a piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding.protocols import Decoding, Passes, Prefill, ScoreTokens
from engine.decoding.run import Run
from engine.events import PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.layers.masks import CAUSAL, Blocks
from engine.types import Cancel

Read: TypeAlias = Callable[[Tensor, Cancel | None], Passes[bool]]
"""Appends what a cache lacks of a text (T,); returns as ``prefill``."""


def read_prompt(
    run: Run, room: int, unread: int = 0, read: Read | None = None, blocks: Blocks = CAUSAL
) -> Decoding[bool]:
    """Reads the prompt of a run into its cache, and yields the event of that.

    Args:
        room: tokens that the run may add.
        unread: how many of the prompt's last tokens are left out; the run reads them itself.
        read: in place of ``prefill``.
        blocks: in which it is read; only whole ones are reused.

    Returns:
        False if ``cancel`` was set before all was read; then there is no event.
    """
    started, length, cache = time.perf_counter(), len(run.prompt), run.cache
    text = run.prompt[: length - unread]
    kept = reuse_prefix(cache, [text], blocks)
    cache.reserve(length + room)
    is_read = yield from prefill([text], cache, run.cancel) if read is None else read(text, run.cancel)
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


class CausalReader:
    """Reads text into a cache as ``prefill`` and ``commit`` do, and keeps the hidden state of the newest token."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self.newest: tuple[int, Tensor] | None = None  # length of a text, and the hidden state (H,) at its end

    def prefill(self, text: Tensor, cancel: Cancel | None) -> Passes[bool]:
        """Appends the rest of a text (T,), whose beginning the cache holds; returns as ``prefill``."""
        lacking = self.cache.pieces(len(text) - self.cache.length)
        if not lacking:
            return True
        last = len(text) - lacking[-1]
        if last > self.cache.length:
            is_read = yield from prefill([text[:last]], self.cache, cancel)
            if not is_read or (cancel is not None and cancel.is_set()):
                return False
        yield from self.read(text[last:], len(text) - last)
        return True

    def read(self, ids: Tensor, first: int = 0) -> Passes[NDArray[np.float32]]:
        """Appends tokens (T,); returns their log-probabilities from ``first`` on, NaN where not known."""
        found = list[Tensor]()
        for start in range(0, len(ids), self.cache.piece):
            piece = ids[start : start + self.cache.piece]
            is_known = self.newest is not None and self.newest[0] == self.cache.length
            before = self.newest[1] if self.newest is not None and is_known else None
            wanted = ScoreTokens(piece, self.cache, before, min(len(piece), max(0, first - start)))
            yield wanted
            self.cache.record_ids(piece.tolist())
            assert wanted.log_probabilities is not None, "the pass was not performed"
            assert wanted.last is not None, "the pass was not performed"
            self.newest = self.cache.length, wanted.last
            found.append(wanted.log_probabilities)
        return torch.cat(found).cpu().numpy()
