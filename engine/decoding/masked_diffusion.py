"""Block diffusion with masks: fills a block in bidirectional passes, then reads it causally into the cache.

The first token of a block is written by the causal pass before it, and stays. The others are written where the model is
sure; the likeliest one always is. A predicted mask stays a mask, except in a block's last pass, which writes all masks.
Source: Nemotron-Labs-Diffusion, arXiv 2607.05722.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.decoding.masked_run import MaskedRun, sure
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def masked_diffusion(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the prompt and the blocks before the last one, as a causal pass reads them.

    Raises:
        SafelightError: as ``MaskedRun``; the model gives numbers that are not finite.
    """
    state, config = MaskedRun(run), run.config

    def choose(logits: Tensor, _step: int) -> tuple[Tensor, list[int]]:
        drawn = state.sampler.draw(logits)
        likely = (logits.gather(1, drawn[:, None])[:, 0] - logits.logsumexp(dim=-1)).exp()  # before the temperature
        return drawn, sure(likely, state.config.accept_probability).nonzero()[:, 0].tolist()

    yield from state.begin(unread=1)
    places, unread = range(0), run.prompt[-1:].tolist()
    while state.goes_on():
        yield from state.write_next(unread)
        places = range(places.stop, min(places.stop + state.size, state.limit))
        yield from state.fill(places, min(config.max_denoising_steps, len(places)), choose)
        unread = state.tokens(places)
    yield from state.finish()
