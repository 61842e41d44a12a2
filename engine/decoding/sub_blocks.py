"""Decoding by sub-blocks: a block is filled part by part, and each row predicts the token behind it.

Blocks lie at multiples of their length from the prompt's first token, and each sees all of itself. The prompt's last
tokens begin the first one that is filled. A full block is read for the cache, and its last row predicts the first token
of the next block: the likeliest one, whatever the temperature. So every other token has a row of its block before it.
A mask is written if its token is likelier than ``accept_probability``; the likeliest always is. A predicted mask stays
a mask, except in a part's last pass, which writes all masks. A block's first token is never one.

Source: Fast-dLLM v2, arXiv 2509.26328, and its authors' ``generate`` and ``batch_sample``. These do not read a prompt
of exactly one block; this decoder does. It has neither their skipping of layers (``reuse_k``) nor their cache of a
block's keys and values (``use_block_cache``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import Decoding, Passes
from engine.decoding.run import Run
from engine.decoding.sampling import SDAR
from engine.layers.masks import Blocks

PART = 8  # positions that are filled before the next ones of a block; the published models' ``small_block_size``


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def sub_blocks(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the blocks before the last one, with their tokens of the prompt.

    Raises:
        SafelightError: as ``MaskedRun``; the model gives numbers that are not finite.
    """
    state = MaskedRun(run, order=SDAR)

    def choose(logits: Tensor, _step: int) -> tuple[Tensor, list[int]]:
        drawn, shares = state.sampler.weighed(logits)
        likely = shares.gather(1, drawn[:, None])[:, 0]
        is_sure = likely > state.config.accept_probability
        is_sure[likely.argmax()] = True
        return drawn, is_sure.nonzero()[:, 0].tolist()

    def look(places: range, masked: Sequence[int]) -> Passes[Tensor]:
        first = masked[0] - 1  # each row predicts the token behind it
        logits = yield from state.read(state.tokens(places), 0, first - places.start, is_causal=False)
        return logits[[place - 1 - first for place in masked]]

    begun = len(run.prompt) % state.size or state.size  # tokens of the prompt in the first block that is read here
    yield from state.begin(unread=begun, blocks=Blocks(state.size))
    start, end = -begun, run.model.config.max_position_embeddings - len(run.prompt)
    while state.goes_on():
        places = range(start, min(start + state.size, end))  # below 0: of the prompt
        for first in range(places.start, places.stop, PART):
            if state.goes_on():
                part = range(first, min(first + PART, places.stop))
                yield from state.fill(places, PART, choose, look, part=part)
        if state.goes_on():
            yield from _write_next(state, places)
        start += state.size
    yield from state.finish()


def _write_next(state: MaskedRun, places: range) -> Decoding[None]:
    """Reads a full block into the cache, and writes the token behind it, if a format has not forced it already."""
    clock = time.perf_counter()
    logits = yield from state.read(state.tokens(places), len(places), len(places) - 1, is_causal=False)
    if state.run.answer is not None:
        is_forced = places.stop < state.length
        yield from state.write({}, {}, time.perf_counter() - clock) if is_forced else state.write_fitting(logits, clock)
        return
    logits[:, state.mask] = -torch.inf
    token = state.budget.ending(logits.argmax(dim=-1))
    predicted = state.predicted([places.stop], logits, token)
    yield from state.write({places.stop: int(token)}, predicted, time.perf_counter() - clock)
