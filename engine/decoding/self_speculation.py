"""Self-speculation: a model drafts several tokens in one bidirectional pass and verifies them in one causal pass.

Only tokens that the causal pass predicts are written, so the text is that of autoregressive decoding, however good the
drafts are: token for token at temperature 0, else in distribution. (If two tokens are equally likely to rounding, a
pass of many rows may choose the other.) Source: Nemotron-Labs-Diffusion, arXiv 2607.05722.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampling import verified
from engine.models.model import Model

LEAST_WINDOW, MAX_WINDOW = 8, 32  # rows of a round: the last token, and the drafts behind it


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def self_speculation(run: Run, draft: DraftAdapter | None = None) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the prompt and the text without its last token.

    Args:
        draft: on in the drafting passes; None takes the model's own, if it has one.

    Raises:
        SafelightError: as ``masked_diffusion``.
    """
    if draft is None and isinstance(run.model, Model):
        draft = run.model.draft
    state = MaskedRun(run, in_order=True)
    most = min(MAX_WINDOW, state.size)
    window = least = min(LEAST_WINDOW, most)
    yield from state.begin(unread=1)
    if state.goes_on():
        yield from state.write_next(run.prompt[-1:].tolist())
    while state.goes_on():
        token = state.text[state.length - 1]
        count = min(window, state.limit - state.length)  # rows
        drafts = (yield from _draft(state, token, count, draft)) if count > 1 else None
        if state.goes_on():
            written = yield from _verify(state, token, drafts)
            if written == count:
                window = min(most, window * 2)
            elif written <= max(1, count // 2):
                window = max(least, window // 2)
    yield from state.finish()


@dataclass(frozen=True)
class _Drafts:
    """Drafted tokens (D,), and the distributions (D, V) that they were drawn from."""

    tokens: Tensor
    shares: Tensor


def _draft(state: MaskedRun, token: int, count: int, draft: DraftAdapter | None) -> Decoding[_Drafts]:
    """Drafts ``count`` - 1 tokens behind the text's last one; writes none."""
    clock = time.perf_counter()
    logits = yield from state.read([token] + [state.mask] * (count - 1), 0, 1, is_causal=False, draft=draft)
    shares = state.sampler.shares(logits)
    drawn = state.sampler.draw(logits, shares)
    predicted = state.predicted(range(state.length, state.length + count - 1), logits, drawn)
    yield from state.write({}, predicted, time.perf_counter() - clock)
    return _Drafts(drawn, shares)


def _verify(state: MaskedRun, token: int, drafts: _Drafts | None) -> Decoding[int]:
    """Reads the last token and the drafts, writes the verified ones and the token behind them; returns how many."""
    clock, held = time.perf_counter(), state.cache.length
    block = [token] if drafts is None else [token, *drafts.tokens.tolist()]
    logits = yield from state.read(block, len(block))
    if drafts is None:
        tokens = state.sampler.draw(logits)
    else:
        tokens = verified(drafts.tokens, drafts.shares, state.sampler.shares(logits), state.sampler.generator)
    tokens = state.budget.ending(tokens)
    count = len(tokens)
    state.cache.truncate(held + count)
    places = range(state.length, state.length + count)
    predicted = state.predicted(places, logits[:count], tokens)
    written = dict(zip(places, tokens.tolist(), strict=True))
    yield from state.write(written, predicted, time.perf_counter() - clock)
    return count
