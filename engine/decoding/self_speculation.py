"""Self-speculation: a model drafts several tokens in one bidirectional pass and verifies them in one causal pass.

What is written is what the causal pass says, so the text is that of autoregressive decoding, token for token, however
good the drafts are. (Where two tokens are equally likely to rounding, a pass of many rows may choose the other.)
Source: Nemotron-Labs-Diffusion, arXiv 2607.05722.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import CausalModel, Decoding
from engine.errors import SafelightError
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
    """Generate text after ``prompt`` (T,), always the likeliest token. Cancelling takes effect within one pass.

    In the end the cache holds the prompt and the text but its last token.

    Args:
        draft: on in the drafting passes; None takes the model's own, if it has one.

    Raises:
        SafelightError: a temperature is set; as ``masked_diffusion``.
    """
    if config.sampling_temperature > 0.0:
        raise SafelightError("self-speculation is greedy; set the sampling temperature to 0, or take another decoder")
    if draft is None and isinstance(model, Model):
        draft = model.draft
    run = MaskedRun(model, prompt, config, seed, cancel, cache, in_order=True)
    most = min(MOST_WINDOW, run.size)
    window = least = min(LEAST_WINDOW, most)
    yield from run.begin()
    while run.goes_on():
        block = [run.text[run.length - 1]]
        count = min(window, run.limit - run.length)  # of rows
        if count > 1:
            block += yield from _draft(run, block[0], count, draft)
        if run.goes_on():
            written = yield from _verify(run, block)
            if written == count:
                window = min(most, window * 2)
            elif written <= max(1, count // 2):
                window = max(least, window // 2)
    yield from run.finish()


def _draft(run: MaskedRun, token: int, count: int, draft: DraftAdapter | None) -> Decoding[list[int]]:
    """Draft ``count`` - 1 tokens behind the text's last one, which writes nothing."""
    clock = time.perf_counter()
    logits = yield from run.read([token] + [run.mask] * (count - 1), 0, 1, is_causal=False, draft=draft)
    drawn = run.drawing.draw(logits)
    predicted = run.predicted(range(run.length, run.length + count - 1), logits, drawn)
    yield from run.write({}, predicted, time.perf_counter() - clock)
    drafted: list[int] = drawn.tolist()
    return drafted


def _verify(run: MaskedRun, block: list[int]) -> Decoding[int]:
    """Read the text's last token and the drafts; write what is verified and the token behind. Returns how many."""
    clock, held = time.perf_counter(), run.cache.length
    logits = yield from run.read(block, len(block))
    drawn = run.drawing.draw(logits)
    tokens: list[int] = drawn.tolist()
    agreed = next((row for row, drafted in enumerate(block[1:]) if tokens[row] != drafted), len(block) - 1)
    count = agreed + 1
    run.cache.truncate(held + count)
    places = range(run.length, run.length + count)
    predicted = run.predicted(places, logits[:count], drawn[:count])
    yield from run.write(dict(zip(places, tokens, strict=False)), predicted, time.perf_counter() - clock)
    return count
