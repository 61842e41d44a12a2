"""Block-causal decoding: text is read in blocks each of which sees all of itself, and a block's masks are filled so.

Blocks lie at multiples of their length from the prompt's first token; the prompt's tail begins the first one that is
filled. A mask predicts the token of its own place. A block that is full is read once more, for the cache. A predicted
mask stays one, but in a block's last pass, which writes all that is left.

Source: SDAR, arXiv 2510.06303, and its authors' ``generate.py``. "entropy_bounded" is as in JetEngine, their server;
in that file it ends with an error. Where that file writes over what is written already, this writes masks alone.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun
from engine.decoding.prefill import commit
from engine.decoding.protocols import CausalModel, Decoding
from engine.decoding.shares import SDAR
from engine.layers.kv_cache import KVCache
from engine.types import Cancel


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_causal(
    model: CausalModel,
    prompt: Tensor,
    config: GenerationConfig,
    seed: int,
    cancel: Cancel | None,
    cache: KVCache,
) -> Decoding[None]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one pass.

    In the end the cache holds the blocks before the last one, with what they have of the prompt.

    Raises:
        SafelightError: as ``MaskedRun``; the model gives numbers that are not finite.
    """
    run = MaskedRun(model, prompt, config, seed, cancel, cache, order=SDAR)
    steps = min(config.max_denoising_steps, run.size)

    def choose(logits: Tensor, step: int) -> tuple[Tensor, list[int]]:
        greedy = config.sampling_temperature == 0.0
        shares = logits.softmax(dim=-1) if greedy else run.drawing.shares(logits)
        drawn = run.drawing.draw(logits, shares)
        return drawn, _chosen(shares, drawn, run.size // steps + (step < run.size % steps), config)

    begun = len(prompt) % run.size  # tokens of the prompt in the first block that is filled
    yield from run.begin(unread=begun, block=run.size)
    start, end = -begun, model.config.max_position_embeddings - len(prompt)
    while run.goes_on():
        places = range(start, min(start + run.size, end))  # below 0: of the prompt
        yield from run.fill(places, steps, choose)
        if run.goes_on():
            clock = time.perf_counter()
            yield from commit(torch.tensor(run.tokens(places)), cache)
            yield from run.write({}, {}, time.perf_counter() - clock)
        start += run.size
    yield from run.finish()


def _chosen(shares: Tensor, drawn: Tensor, count: int, config: GenerationConfig) -> list[int]:
    """The masks that are written, of M whose tokens (M,) were drawn from shares (M, V): of equals the first ones.

    Args:
        count: how many the schedule has for this pass.
    """
    count = min(count, len(drawn))
    if config.remasking == "sequential":
        return list(range(count))
    if config.remasking == "entropy_bounded":
        entropy, order = torch.special.entr(shares).sum(dim=-1).sort(stable=True)
        within = int((entropy.cumsum(dim=0) < config.entropy_bound).sum())
        found = order[: max(1, within)]
    else:
        likely = shares.gather(1, drawn[:, None])[:, 0]
        found = (likely > config.accept_probability).nonzero()[:, 0]
        if config.remasking == "low_confidence_static" or len(found) < count:
            found = likely.sort(descending=True, stable=True).indices[:count]
    chosen: list[int] = found.tolist()
    return chosen
