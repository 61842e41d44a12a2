"""The vocabulary stage for the places of a canvas that are still open: on a processor each row costs its share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.kernels.reference_step import MOST_GAP, VocabularyResult

Stage = Callable[[Tensor, Tensor], VocabularyResult]
"""Predicts hidden states (R, H), given the places (R,) of their rows on the canvas."""


def of_free_rows(stage: Stage, hidden: Tensor, certain: Tensor, embed: Callable[[Tensor], Tensor]) -> VocabularyResult:
    """Returns the results of a whole canvas; those of the other places are certain of their token.

    Args:
        stage: of the open places alone, without pins.
        hidden: (C, H).
        certain: (C,) token ids, -1 where a place is open.
        embed: embeds token ids (R,) -> (R, H).
    """
    is_open = certain < 0
    places = is_open.nonzero()[:, 0]
    if not len(places):  # every stage has a row
        places = places.new_zeros(1)
    found, length = stage(hidden[places], places), len(certain)
    held = certain.long().clamp_min(0)

    def spread(own: Tensor, other: float) -> Tensor:
        return own.new_full((length,), other).index_copy_(0, places, own)

    return VocabularyResult(
        argmax=torch.where(is_open, spread(found.argmax, 0), held),
        candidate=torch.where(is_open, spread(found.candidate, 0), held),
        entropy=torch.where(is_open, spread(found.entropy, 0.0), 0.0),
        probability=torch.where(is_open, spread(found.probability, 1.0), 1.0),
        gap=torch.where(is_open, spread(found.gap, MOST_GAP), MOST_GAP),
        logsumexp=spread(found.logsumexp, 0.0),
        soft=torch.where(is_open[:, None], torch.zeros_like(hidden).index_copy_(0, places, found.soft), embed(held)),
        nonfinite=found.nonfinite,
    )
