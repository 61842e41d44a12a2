"""Computes a typed answer from the labels' probabilities in one or several reads. All numbers are plain floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from engine.tasks.decisions.questions import Question

DOUBT = 0.1  # nats: an answer with a larger entropy is read again
COLDEST, HOTTEST = 0.05, 20.0  # bounds of a temperature


@dataclass(frozen=True)
class LabelRead:
    """One slot in one read: the log-probabilities of its labels (nats, over the whole vocabulary), one per option."""

    logprobs: tuple[float, ...]
    argmax_is_label: bool = True  # the most probable token of all is one of the labels

    @property
    def label_mass(self) -> float:
        """Returns the probability of all labels together, 0 to 1."""
        return min(1.0, math.fsum(math.exp(value) for value in self.logprobs))

    def probabilities(self, temperature: float = 1.0) -> tuple[float, ...]:
        """Returns the options' probabilities, summing to 1: a softmax over the labels only."""
        top = max(self.logprobs)
        if top == -math.inf:
            return (1 / len(self.logprobs),) * len(self.logprobs)
        raw = [math.exp((value - top) / temperature) for value in self.logprobs]
        whole = math.fsum(raw)
        return tuple(value / whole for value in raw)

    @property
    def entropy(self) -> float:
        """Returns the entropy of the options' probabilities, in nats."""
        return -math.fsum(share * math.log(share) for share in self.probabilities() if share > 0)


@dataclass(frozen=True)
class TypedAnswer:
    """A typed answer: a probability for each option of the question, the mean over the reads.

    Args:
        label_mass: probability of all labels together, the mean over the reads.
        spread: standard error of each probability; zeros after a single read.
        agreement: share of the reads whose own most probable option is the answer's.
    """

    question: Question
    probabilities: tuple[float, ...]
    label_mass: float
    argmax_is_label: bool = True
    reads: int = 1
    spread: tuple[float, ...] = ()
    agreement: float = 1.0

    @cached_property
    def best(self) -> int:
        """Returns the index of the most probable option."""
        return max(range(len(self.probabilities)), key=self.probabilities.__getitem__)

    @property
    def confidence(self) -> float:
        """Returns the probability of the most probable option times the label mass."""
        return self.probabilities[self.best] * self.label_mass

    @property
    def score(self) -> float:
        return math.fsum(level * share for level, share in enumerate(self.probabilities))


def answer_of(question: Question, reads: Sequence[LabelRead], temperature: float = 1.0) -> TypedAnswer:
    """Returns the answer to a question from one or more reads of its slot."""
    shares = [read.probabilities(temperature) for read in reads]
    number = len(shares)
    mean = tuple(math.fsum(column) / number for column in zip(*shares, strict=True))
    best = max(range(len(mean)), key=mean.__getitem__)
    agreeing = sum(max(range(len(one)), key=one.__getitem__) == best for one in shares)
    return TypedAnswer(
        question,
        mean,
        math.fsum(read.label_mass for read in reads) / number,
        all(read.argmax_is_label for read in reads),
        number,
        tuple(_standard_error(column) for column in zip(*shares, strict=True)),
        agreeing / number,
    )


def _standard_error(values: Sequence[float]) -> float:
    number = len(values)
    if number < 2:
        return 0.0
    mean = math.fsum(values) / number
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (number - 1) / number)
