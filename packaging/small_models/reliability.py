"""Measures how far the probabilities of answers whose right options are known can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import SafelightError

BINS = 10  # bins of the most probable option's probability, equally wide


@dataclass(frozen=True)
class Reliability:
    """The quality of probabilities."""

    examples: int
    accuracy: float  # share of answers whose most probable option is the right one
    brier: float  # mean squared distance to the right answer over all options, 0 to 2; better when smaller
    ece: float  # mean distance between probability and accuracy of the bins, weighted by their counts; so is this


def measure(probabilities: Sequence[Sequence[float]], right: Sequence[int]) -> Reliability:
    """Measures the quality of the probabilities of N answers, given the right option of each.

    Raises:
        SafelightError: there are no answers.
    """
    if not probabilities:
        raise SafelightError("there are no labelled examples; label some first")
    number = len(probabilities)
    surplus = [0.0] * BINS  # probabilities of the best options, minus the number of those that are right, by bin
    hits, brier = 0, []
    for shares, index in zip(probabilities, right, strict=True):
        best = max(range(len(shares)), key=shares.__getitem__)
        brier.append(math.fsum((share - (place == index)) ** 2 for place, share in enumerate(shares)))
        surplus[min(BINS - 1, int(shares[best] * BINS))] += shares[best] - (best == index)
        hits += best == index
    return Reliability(number, hits / number, math.fsum(brier) / number, math.fsum(map(abs, surplus)) / number)
