"""Finds the positions that a finished block left in doubt. Uses only numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
