"""Measures the calibration of probabilities on labelled examples, and fits one temperature that improves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import SafelightError, quoted
from engine.tasks.decisions.answers import LabelRead

LEAST_EXAMPLES = 10
COLDEST, HOTTEST = 0.05, 20.0  # bounds of a fitted temperature
BINS = 10  # bins of the most probable option's probability, equally wide
LEAST_SHARE = 1e-12  # a probability of 0 would make the likelihood infinite
_GRID = 48  # temperatures on the grid that brackets the best one
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class LabelledRead:
    """The reads of a question whose right option is known, by its index."""

    reads: tuple[LabelRead, ...]
    right: int

    def probabilities(self, temperature: float) -> tuple[float, ...]:
        """Returns the options' probabilities, the mean over the reads."""
        shares = [read.probabilities(temperature) for read in self.reads]
        return tuple(math.fsum(column) / len(shares) for column in zip(*shares, strict=True))


@dataclass(frozen=True)
class ReliabilityBin:
    """The answers whose most probable option has a probability within one tenth; both means are 0 if there are none."""

    low: float
    high: float
    count: int = 0
    mean_confidence: float = 0.0
    accuracy: float = 0.0


@dataclass(frozen=True)
class Reliability:
    """The quality of probabilities. All measures except the accuracy are better when smaller."""

    examples: int
    accuracy: float  # share of answers whose most probable option is the right one
    nll: float  # mean negative logarithm of the right option's probability, in nats
    brier: float  # mean squared distance to the right answer over all options, 0 to 2
    ece: float  # mean distance between confidence and accuracy of the bins, weighted by their counts
    bins: tuple[ReliabilityBin, ...]


def checked_temperature(value: Any) -> float:
    """Checks a temperature of unknown origin.

    Raises:
        SafelightError: it is no number, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not COLDEST <= value <= HOTTEST:
        raise SafelightError(f"the temperature must be a number from {COLDEST} to {HOTTEST:g}, not {quoted(value)}")
    return float(value)


def measure(probabilities: Sequence[Sequence[float]], right: Sequence[int]) -> Reliability:
    """Measures the quality of the probabilities of N answers, given the right option of each.

    Raises:
        SafelightError: there are no answers.
    """
    if not probabilities:
        raise SafelightError("there are no labelled examples; label some first")
    number = len(probabilities)
    sums = [[0.0, 0.0, 0.0] for _ in range(BINS)]  # number, confidence and right answers of each bin
    nll, brier = [], []
    for shares, index in zip(probabilities, right, strict=True):
        best = max(range(len(shares)), key=shares.__getitem__)
        nll.append(-math.log(max(shares[index], LEAST_SHARE)))
        brier.append(math.fsum((share - (place == index)) ** 2 for place, share in enumerate(shares)))
        held = sums[min(BINS - 1, int(shares[best] * BINS))]
        held[0] += 1
        held[1] += shares[best]
        held[2] += best == index
    edges = [place / BINS for place in range(BINS + 1)]
    bins = tuple(
        ReliabilityBin(low, high, int(count), confidence / max(count, 1), hits / max(count, 1))
        for low, high, (count, confidence, hits) in zip(edges, edges[1:], sums, strict=False)
    )
    return Reliability(
        number,
        sum(held[2] for held in sums) / number,
        math.fsum(nll) / number,
        math.fsum(brier) / number,
        math.fsum(one.count * abs(one.mean_confidence - one.accuracy) for one in bins) / number,
        bins,
    )


def reliability(examples: Sequence[LabelledRead], temperature: float = 1.0) -> Reliability:
    """Measures the probabilities of reads at a temperature; errors as in ``measure``."""
    return measure([one.probabilities(temperature) for one in examples], [one.right for one in examples])


def fit_temperature(examples: Sequence[LabelledRead]) -> float:
    """Returns the temperature with the highest likelihood of the right options, from ``COLDEST`` to ``HOTTEST``.

    Raises:
        SafelightError: fewer than ``LEAST_EXAMPLES`` examples.
    """
    if len(examples) < LEAST_EXAMPLES:
        raise SafelightError(
            f"a temperature needs at least {LEAST_EXAMPLES} labelled answers; there are {len(examples)}. Label more"
        )

    nll = _nll_of(examples)
    low, high = math.log(COLDEST), math.log(HOTTEST)
    grid = [low + (high - low) * place / _GRID for place in range(_GRID + 1)]
    losses = [nll(point) for point in grid]
    # Of equally good temperatures the one nearest to 1: if all answers are right and sure, any low one is as good.
    best = min(range(len(grid)), key=lambda place: (round(losses[place], 12), abs(grid[place])))
    found = _lowest(nll, grid[max(best - 1, 0)], grid[min(best + 1, _GRID)])
    chosen = min((found, grid[best], 0.0), key=lambda point: (round(nll(point), 12), abs(point)))
    return min(HOTTEST, max(COLDEST, round(math.exp(chosen), 6)))


def _nll_of(examples: Sequence[LabelledRead]) -> Callable[[float], float]:
    """Returns the mean negative log-likelihood as a function of the temperature's logarithm; fast, as it is called
    often."""
    reads = max(len(one.reads) for one in examples)
    options = max(len(read.logprobs) for one in examples for read in one.reads)
    gaps = np.full((len(examples), reads, options), -np.inf)  # nats below the most probable option of each read
    for row, one in enumerate(examples):
        for column, read in enumerate(one.reads):
            top = max(read.logprobs)
            held = len(read.logprobs)
            gaps[row, column, :held] = 0.0 if top == -math.inf else np.asarray(read.logprobs) - top
    is_read = np.isfinite(gaps).any(axis=2)  # (N, R)
    right = np.array([one.right for one in examples])[:, None, None]

    def nll(log_temperature: float) -> float:
        raw = np.exp(gaps / math.exp(log_temperature))
        whole = np.where(is_read, raw.sum(axis=2), 1.0)
        shares = np.take_along_axis(raw, right, axis=2)[:, :, 0] / whole
        means = shares.sum(axis=1) / is_read.sum(axis=1)
        return float(-np.log(np.maximum(means, LEAST_SHARE)).mean())

    return nll


def _lowest(function: Callable[[float], float], low: float, high: float, within: float = 1e-6) -> float:
    """Finds the minimum of a function that falls and then rises, by golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > within:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
