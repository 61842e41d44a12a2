"""Decoding by sub-blocks: a block is filled part by part, and each row predicts the token behind it.

Blocks lie at multiples of their length from the prompt's first token, and each sees all of itself. The prompt's last
tokens begin the first one that is filled. A full block is read for the cache, and its last row predicts the first token
of the next block: the likeliest one, whatever the temperature. So every other token has a row of its block before it.
A mask is written if its token is likelier than ``accept_probability``; the likeliest always is. A predicted mask stays
a mask, except in a part's last pass, which writes all masks. A block's first token is never one.

With ``block_cache`` "dual", the keys and values of the block around a part stay those of the part's first passes, up to
the one that writes the part's first token.

Source: Fast-dLLM v2, arXiv 2509.26328, and its authors' ``generate`` and ``batch_sample``. These do not read a prompt
of exactly one block; this decoder does. Theirs to skip layers (``reuse_k``) is not had.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import Decode, Decoding, Passes
from engine.decoding.run import Run
from engine.decoding.shares import SDAR
from engine.errors import SafelightError
from engine.layers.masks import Blocks


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def sub_blocks(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the blocks before the last one, with their tokens of the prompt.

    Raises:
        SafelightError: as ``MaskedRun``; a block cache that this decoder does not have; the model gives numbers that
            are not finite.
    """
    state, config = MaskedRun(run, order=SDAR), run.config
    if config.block_cache == "prefix":
        raise SafelightError("this decoder always keeps the text before a block; take the block_cache dual, or none")

    def choose(logits: Tensor, _step: int) -> tuple[Tensor, list[int]]:
        drawn, shares = state.drawing.weighed(logits)
        likely = shares.gather(1, drawn[:, None])[:, 0]
        found = likely > state.config.accept_probability
        found[likely.argmax()] = True
        return drawn, found.nonzero()[:, 0].tolist()

    begun = len(run.prompt) % state.size or state.size  # tokens of the prompt in the first block that is read here
    yield from state.begin(unread=begun, blocks=Blocks(state.size))
    start, end = -begun, run.model.config.max_position_embeddings - len(run.prompt)
    while state.goes_on():
        places = range(start, min(start + state.size, end))  # below 0: of the prompt
        for first in range(places.start, places.stop, config.sub_block):
            if state.goes_on():
                filling = _Filling(state, range(first, min(first + config.sub_block, places.stop)))
                yield from state.fill(places, config.sub_block, choose, filling.look, part=filling.part)
                filling.forget()
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


class _Filling:
    """The passes that fill a part of a block."""

    def __init__(self, state: MaskedRun, part: range) -> None:
        self.state, self.part = state, part
        self.before = state.cache.length  # tokens before the block
        self.keeps = state.config.block_cache == "dual"

    def look(self, places: range, masked: Sequence[int]) -> Passes[Tensor]:
        """Reads the block, or the part alone; the arguments and the result are those of ``Look``."""
        state, part = self.state, self.part
        order, kept = list(places), list[int]()
        if self.keeps and state.cache.length > self.before and state.tokens(part[:1]) != [state.mask]:
            order = list(part)
        elif self.keeps:
            self.forget()
            kept = [place for place in places if place not in part]
            order = [*kept, *part]
        first = min(order.index(place - 1) for place in masked)
        positions = torch.tensor(order) + len(state.prompt)
        ids = torch.tensor(state.tokens(order))
        wanted = Decode(ids, state.cache, len(kept), first, positions, is_causal=False)
        yield wanted
        return state.drawing.allowed(wanted.take()[[order.index(place - 1) - first for place in masked]])

    def forget(self) -> None:
        """Drops what is kept of the block."""
        if self.keeps:
            self.state.cache.truncate(self.before)
