"""Scores a prompt: how likely each of its tokens is by the text before it alone.

The prompt is read causally, as autoregressive decoding reads it, in passes that predict at every row. Every network
that has that decoder can score, DiffusionGemma included, which reads its text so.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator

import numpy as np
import torch

from engine.decoding.protocols import Decode, Pass, Passes
from engine.decoding.run import Run
from engine.events import Event, PrefillFinished, PromptScores

MOST_LOGITS = 2**24  # of one pass: 64 MiB in fp32


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
    rows = max(1, min(cache.piece, MOST_LOGITS // size))
    for start in range(0, len(prompt), rows):
        if run.is_cancelled:
            return None
        piece = prompt[start : start + rows]
        wanted = Decode(piece, cache, len(piece))
        yield wanted
        cache.record_ids(piece.tolist())
        following = prompt[start + 1 : start + 1 + len(piece)]
        found = torch.log_softmax(wanted.take()[: len(following)].float(), dim=-1)
        own.append(found.gather(1, following[:, None].to(found.device))[:, 0].cpu().numpy())
        top = found.topk(min(most, size), dim=-1)
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
