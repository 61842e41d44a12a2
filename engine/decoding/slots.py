"""Predicts slots of a text behind a prompt, in models that write over masks. Afterwards the cache holds the prompt.

A model that reads all of a text in both directions takes one pass. One that reads it in blocks takes a pass for each
block with a slot; blocks between are read into the cache, with masks in their slots.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decoding.prefill import commit, prefill, reuse_prefix
from engine.decoding.protocols import Decode, Passes
from engine.decoding.run import Run
from engine.layers.masks import Blocks
from engine.models.causal.config import CausalConfig


def slot_logits(run: Run, canvas: Tensor, slots: Sequence[int], *, in_blocks: bool) -> Passes[Tensor]:
    """Returns the logits (S, V) at positions of a canvas (C,), rising, which has masks there.

    Args:
        in_blocks: the model reads text in blocks.
    """
    shape = run.model.config
    assert isinstance(shape, CausalConfig), "a model that writes over masks"
    if in_blocks:
        return (yield from _in_blocks(run, shape, canvas, slots))
    run.cache.truncate(0)
    first = len(run.prompt) + slots[0] - shape.shifts_masks
    wanted = Decode(torch.cat([run.prompt, canvas]), run.cache, 0, first, is_causal=False)
    yield wanted
    return wanted.take()[[slot - slots[0] for slot in slots]]


def _in_blocks(run: Run, shape: CausalConfig, canvas: Tensor, slots: Sequence[int]) -> Passes[Tensor]:
    length, size, found = len(run.prompt), shape.canvas_length, list[Tensor]()
    blocks = Blocks.ending_at(length, size) if shape.blocks_follow_prompt else Blocks(size)
    begun = 0 if shape.blocks_follow_prompt else length % size
    known = run.prompt[: length - begun]
    reuse_prefix(run.cache, [known], blocks)
    run.cache.reserve(length + len(canvas))
    yield from prefill([known], run.cache, None)
    rest = torch.cat([run.prompt[length - begun :], canvas])
    for start in range(0, begun + slots[-1] + 1, size):
        ids = rest[start : start + size]
        rows = [begun + slot - start for slot in slots if start <= begun + slot < start + size]
        if rows:
            wanted = Decode(ids, run.cache, 0, 0, is_causal=False)
            yield wanted
            found.append(wanted.take()[rows])
        if start + size <= begun + slots[-1]:
            yield from commit(ids, run.cache)
    run.cache.truncate(min(run.cache.length, len(known)))
    return torch.cat(found)
