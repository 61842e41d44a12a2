"""Reads text into a cache: reuses what the cache holds already, and reads the rest a piece at a time.

A prompt may be scored: how likely each of its tokens is by the text before it alone. It is then read in passes that
predict at every row. Every network that has autoregressive decoding can score, DiffusionGemma included.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.decoding.protocols import Decode, Decoding, Pass, Passes, Prefill
from engine.decoding.run import Run
from engine.events import Event, PrefillFinished, PromptScores
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


MAX_LOGITS = 2**24  # of one pass: 64 MiB in fp32


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def score_prompt(run: Run, most: int) -> Passes[PromptScores | None]:
    """Reads the whole prompt (T,) into the run's cache, and scores it.

    Args:
        most: K, how many of the likeliest tokens are reported in the place of each token.

    Returns:
        None if the run was cancelled meanwhile.
    """
    cache, prompt, size = run.cache, run.prompt, run.model.config.vocab_size
    cache.keep_prefix([])  # what is not read again is not predicted
    cache.reserve(len(prompt))
    own, best, shares = [np.zeros(0, np.float32)], [np.zeros((0, most), np.int32)], [np.zeros((0, most), np.float32)]
    rows = max(1, min(cache.piece, MAX_LOGITS // size))
    for start in range(0, len(prompt), rows):
        if run.is_cancelled:
            return None
        piece = prompt[start : start + rows]
        wanted = Decode(piece, cache, len(piece))
        yield wanted
        cache.record_ids(piece.tolist())
        following = prompt[start + 1 : start + 1 + len(piece)]
        logprobs = torch.log_softmax(wanted.take()[: len(following)].float(), dim=-1)
        own.append(logprobs.gather(1, following[:, None].to(logprobs.device))[:, 0].cpu().numpy())
        top = logprobs.topk(min(most, size), dim=-1)
        best.append(top.indices.to("cpu", torch.int32).numpy())
        shares.append(top.values.cpu().numpy())
    tokens = prompt.to(torch.int32).numpy()
    return PromptScores(tokens, np.concatenate(own), np.concatenate(best), np.concatenate(shares))


def with_scores(run: Run, most: int, decoding: Iterable[Event | Pass]) -> Iterator[Event | Pass | PromptScores]:
    """Yields the scores of a run's prompt, then the items of its decoding, which finds the prompt read."""
    clock = time.perf_counter()
    scores = yield from score_prompt(run, most)
    taken = time.perf_counter() - clock
    if scores is not None:
        yield scores
    for item in decoding:
        if scores is not None and isinstance(item, PrefillFinished):  # it was read for the scores, not before
            item = dataclasses.replace(item, reused_tokens=0, seconds=item.seconds + taken)
        yield item
