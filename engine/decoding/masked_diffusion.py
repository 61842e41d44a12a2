"""Block diffusion with masks: they are filled in bidirectional passes, then the block is read causally into the cache.

Its first token is written by the causal pass before it, and never looked at again; the others are written where the
model is sure, the likeliest in any case. A predicted mask stays one, but in a block's last pass, which writes all that
is left. Source: Nemotron-Labs-Diffusion, arXiv 2607.05722.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import CausalModel, Decoding
from engine.layers.kv_cache import KVCache
from engine.types import Cancel


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def masked_diffusion(
    model: CausalModel,
    prompt: Tensor,
    config: GenerationConfig,
    seed: int,
    cancel: Cancel | None,
    cache: KVCache,
) -> Decoding[None]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one pass.

    In the end the cache holds the prompt and the blocks before the last one, as a causal pass reads them.

    Raises:
        SafelightError: as ``MaskedRun``; the model gives numbers that are not finite.
    """
    run = MaskedRun(model, prompt, config, seed, cancel, cache)
    yield from run.begin(unread=1)
    places, unread = range(0), prompt[-1:].tolist()
    while run.goes_on():
        yield from run.write_next(unread)
        places = range(places.stop, min(places.stop + run.size, run.limit))
        yield from run.fill(places, _fill)
        unread = run.tokens(places)
    yield from run.finish()


def _fill(run: MaskedRun, places: range, stop: int) -> Decoding[None]:
    """Write a block's masks before ``stop``, pass by pass; ends early where the text ends, whatever would follow."""
    last = min(run.config.max_denoising_steps, len(places)) - 1
    for step in range(last + 1):
        masked = [place for place in range(places.start, stop) if place not in run.text]
        if not masked or not run.goes_on():
            return
        clock = time.perf_counter()
        logits = yield from run.read(run.tokens(places), 0, masked[0] - places[0], is_causal=False)
        logits = logits[[place - masked[0] for place in masked]]
        if step == last:
            logits[:, run.mask] = -torch.inf
        drawn = run.drawing.draw(logits)
        sure = _is_sure(logits, drawn, run.config.accept_probability).tolist()
        tokens = zip(masked, drawn.tolist(), sure, strict=True)
        written = {place: token for place, token, is_sure in tokens if is_sure or step == last}
        predicted = run.predicted(masked, logits, drawn)
        yield from run.write(written, predicted, time.perf_counter() - clock)


def _is_sure(logits: Tensor, drawn: Tensor, probability: float) -> Tensor:
    """Whether a row's token is likely enough, before the temperature; the likeliest always is: (R, V), (R,) -> (R,)."""
    chosen = logits.gather(1, drawn[:, None])[:, 0]
    shares = (chosen - logits.logsumexp(dim=-1)).exp()
    sure = shares >= probability
    sure[shares.argmax()] = True
    return sure
