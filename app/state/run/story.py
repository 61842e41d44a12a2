"""Summarises each step of a block: the cells accepted, taken back, or accepted with another token. Makes no text.

It is read from a block's arrays, and so from the run's events alone. Padding after the end of the text does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.state.run.canvas import Mask, Tokens
from app.state.run.replay import BlockRecord

DOUBT_NATS = 0.5
"""A position is in doubt if its entropy at the block's last step is this much or more."""

DOUBT_SHARE = 0.25
"""A position is also in doubt if its second likeliest token has this probability or more at that step."""


class Doubt(NamedTuple):
    """A token that the model was still unsure of when its block ended, or when it was written."""

    token: int
    runner: int | None  # the second likeliest token; None if it was not recorded
    share: float  # probability of ``runner``, 0 if it was not recorded


def doubts_of(record: BlockRecord) -> tuple[Doubt, ...]:
    """Returns the doubts of a finished block in reading order, without padding and pinned positions."""
    if record.final is None or not record.steps:
        return ()
    text, last, runners = record.counted, record.steps - 1, None
    shares = np.zeros(len(record.final[text]), dtype=np.float32)
    if record.top_tokens is not None and record.top_probabilities is not None and record.top_tokens.shape[2] > 1:
        runners, shares = record.top_tokens[last, text, 1], record.top_probabilities[last, text, 1]
    unsure = record.free[text] & ((record.entropy[last, text] >= DOUBT_NATS) | (shares >= DOUBT_SHARE))
    return tuple(
        Doubt(int(record.final[place]), None if runners is None else int(runners[place]), float(shares[place]))
        for place in np.flatnonzero(unsure).tolist()
    )


@dataclass(frozen=True)
class Moment:
    """One step. Places are positions on the canvas, in order."""

    step: int
    accepted: int  # cells that are accepted after the step
    counted: int  # cells that can be accepted: those of the text that are not pinned
    fresh: tuple[int, ...]  # accepted for the first time
    taken_back: tuple[int, ...]  # accepted at the step before, re-noised at this one
    again: tuple[int, ...]  # accepted again, with the token they had when they were taken back
    otherwise: tuple[int, ...]  # accepted again, with another token; or replaced by it
    settled: int  # cells that are settled after the step
    changed: tuple[int, ...]  # their best guess differs from the step before


def moment(record: BlockRecord, step: int) -> Moment:
    """Returns the summary of a step. Raises IndexError outside the block's steps."""
    if not 0 <= step < record.steps:
        raise IndexError(f"step {step} is none of the block's {record.steps}")
    counts = np.zeros(record.length, dtype=np.bool_)
    counts[record.counted] = True
    counts &= ~record.held[step]
    now = record.accepted[step] & counts
    before = (record.accepted[step - 1] if step else record.begun) & counts
    new = now & ~before
    ever = record.accepted[:step].any(axis=0) | record.begun
    same = new & ever & (tokens_before(record, step) == record.candidates[step])
    return Moment(
        step=step,
        accepted=int(now.sum()),
        counted=int(counts.sum()),
        fresh=_places(new & ~ever),
        taken_back=_places(record.taken_back[step] & counts & ~now),
        again=_places(same),
        otherwise=_places((new & ever & ~same) | (record.taken_back[step] & now)),
        settled=int((record.snapshots[step + 1].settled_mask & counts).sum()),
        changed=_places(record.changed[step] & counts),
    )


def tokens_before(record: BlockRecord, step: int) -> Tokens:
    """Returns the token (C,) accepted last before a step; the value has no meaning where none was accepted."""
    if record.has_masks:
        return np.asarray(record.shown[step])
    tried = record.accepted[:step]
    last = step - 1 - np.argmax(tried[::-1], axis=0) if len(tried) else np.zeros(record.length, np.intp)
    tokens: Tokens = record.candidates[last, np.arange(record.length)]
    return tokens


def in_doubt(record: BlockRecord) -> int:
    """Returns the number of cells of the text that were not accepted at the block's last step."""
    if not record.steps:
        return 0
    waiting = ~record.accepted[-1] & ~record.held[-1]
    return int(waiting[record.counted].sum())


def _places(mask: Mask) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())
