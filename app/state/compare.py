"""Two runs beside each other: where they first differ, and in which cells. Knows neither Qt nor torch."""

from __future__ import annotations

import numpy as np

from app.state.canvas_state import BlockState, Mask
from app.state.replay import NOISE, Frame, Replay


def differing(one: BlockState | None, other: BlockState | None, *, calm: bool) -> Mask:
    """(C,) of the first canvas: cells that show another token in the second, or are not there."""
    if one is None:
        return np.zeros(0, dtype=np.bool_)
    found = np.ones(one.length, dtype=np.bool_)
    if other is not None:
        common = min(one.length, other.length)
        found[:common] = one.tokens(calm=calm)[:common] != other.tokens(calm=calm)[:common]
    return found


def counterpart(frame: Frame, other: Replay) -> int | None:
    """The place in the other run of the same block and step, of its last frame of that block where it is shorter there.

    None where the other run has no such block.
    """
    if frame.block >= other.blocks:
        return None
    record = other.record(frame.block)
    return other.first_of(frame.block) + min(frame.step - NOISE, len(record.snapshots) - 1)


def first_divergence(one: Replay, other: Replay) -> Frame | None:
    """The first frame whose canvas, noise included, is not the same in both runs; None where all are the same.

    Where one run goes on and the other has ended, that is the first frame that only one has.
    """
    for block in range(min(one.blocks, other.blocks)):
        mine, theirs = one.record(block), other.record(block)
        for place, (here, there) in enumerate(zip(mine.snapshots, theirs.snapshots, strict=False)):
            if not np.array_equal(here.shown, there.shown):
                return Frame(block, place + NOISE)
        if len(mine.snapshots) != len(theirs.snapshots):
            return Frame(block, min(len(mine.snapshots), len(theirs.snapshots)) + NOISE)
    if one.blocks != other.blocks:
        return Frame(min(one.blocks, other.blocks), NOISE)
    return None
