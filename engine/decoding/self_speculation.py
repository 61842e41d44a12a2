"""Self-speculation: a model drafts several tokens in one bidirectional pass and verifies them in one causal pass.

What is written is what the causal pass says, so the text is that of autoregressive decoding, however good the drafts
are: token for token at temperature 0, else in distribution. (Where two tokens are equally likely to rounding, a pass of
many rows may choose the other.) Source: Nemotron-Labs-Diffusion, arXiv 2607.05722.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import CausalModel, Decoding
from engine.decoding.sampling import verified
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.types import Cancel

LEAST_WINDOW, MOST_WINDOW = 8, 32  # rows of a round: the last token, and the drafts behind it


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def self_speculation(
    model: CausalModel,
    prompt: Tensor,
    config: GenerationConfig,
    seed: int,
    cancel: Cancel | None,
    cache: KVCache,
    draft: DraftAdapter | None = None,
) -> Decoding[None]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one pass.

    In the end the cache holds the prompt and the text but its last token.

    Args:
        draft: on in the drafting passes; None takes the model's own, if it has one.

    Raises:
        SafelightError: as ``masked_diffusion``.
    """
    if draft is None and isinstance(model, Model):
        draft = model.draft
    run = MaskedRun(model, prompt, config, seed, cancel, cache, in_order=True)
    most = min(MOST_WINDOW, run.size)
    window = least = min(LEAST_WINDOW, most)
    yield from run.begin(unread=1)
    if run.goes_on():
        yield from run.write_next(prompt[-1:].tolist())
    while run.goes_on():
        token = run.text[run.length - 1]
        count = min(window, run.limit - run.length)  # of rows
        drafts = (yield from _draft(run, token, count, draft)) if count > 1 else None
        if run.goes_on():
            written = yield from _verify(run, token, drafts)
            if written == count:
                window = min(most, window * 2)
            elif written <= max(1, count // 2):
                window = max(least, window // 2)
    yield from run.finish()


@dataclass(frozen=True)
class _Drafts:
    """Tokens (D,) and what each was drawn from, (D, V)."""

    tokens: Tensor
    shares: Tensor


def _draft(run: MaskedRun, token: int, count: int, draft: DraftAdapter | None) -> Decoding[_Drafts]:
    """Draft ``count`` - 1 tokens behind the text's last one, which writes nothing."""
    clock = time.perf_counter()
    logits = yield from run.read([token] + [run.mask] * (count - 1), 0, 1, is_causal=False, draft=draft)
    shares = run.drawing.shares(logits)
    drawn = run.drawing.draw(logits, shares)
    predicted = run.predicted(range(run.length, run.length + count - 1), logits, drawn)
    yield from run.write({}, predicted, time.perf_counter() - clock)
    return _Drafts(drawn, shares)


def _verify(run: MaskedRun, token: int, drafts: _Drafts | None) -> Decoding[int]:
    """Read the text's last token and the drafts; write what is verified and the token behind. Returns how many."""
    clock, held = time.perf_counter(), run.cache.length
    block = [token] if drafts is None else [token, *drafts.tokens.tolist()]
    logits = yield from run.read(block, len(block))
    if drafts is None:
        tokens = run.drawing.draw(logits)
    else:
        tokens = verified(drafts.tokens, drafts.shares, run.drawing.shares(logits), run.drawing.generator)
    tokens = run.budget.ending(tokens)
    count = len(tokens)
    run.cache.truncate(held + count)
    places = range(run.length, run.length + count)
    predicted = run.predicted(places, logits[:count], tokens)
    written = dict(zip(places, tokens.tolist(), strict=True))
    yield from run.write(written, predicted, time.perf_counter() - clock)
    return count
