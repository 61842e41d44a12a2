"""Results of a tuning: the runs of each candidate, and its figures next to the reference's. No Qt, no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.state.intervals import NORMAL_95, bootstrap, paired_difference, wilson
from app.state.tuning.candidates import Candidate

Interval = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class TunedRun:
    """A candidate's answer to the prompt of an index; ``steps`` are its denoising steps."""

    candidate: Candidate
    index: int
    is_exact: bool
    steps: int


@dataclass(frozen=True)
class TuningRow:
    """A candidate's figures, and the reference's on the same prompts.

    Args:
        count: answered prompts.
        exact: right answers.
        steps: mean denoising steps of an answer.
        better, worse: prompts that only the candidate answered right, and only the reference.
        ratio: the candidate's steps by the reference's, with its interval.
    """

    candidate: Candidate
    count: int
    exact: int
    steps: float
    better: int
    worse: int
    ratio: float
    ratio_interval: Interval

    @property
    def rate(self) -> float:
        return self.exact / self.count

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the rate."""
        return wilson(self.exact, self.count)

    @property
    def difference(self) -> float:
        """The rate minus the reference's."""
        return (self.better - self.worse) / self.count

    @property
    def difference_interval(self) -> Interval:
        """Tango's interval of the paired difference."""
        return paired_difference(self.better, self.worse, self.count)

    def may_pass(self, margin: float, count: int) -> bool:
        """Returns True if ``count`` prompts may still show that the rate is not lower.

        It then is so if the rate is a standard error higher than it looks. Where few prompts are answered, an interval
        of 95 % would seldom rule anything out.
        """
        apart = self.better + self.worse
        reach = math.sqrt(apart) / self.count - NORMAL_95 * math.sqrt(apart / self.count / count)
        return self.difference + reach > -margin

    def is_not_lower(self, margin: float) -> bool:
        """Returns True if the whole interval of the difference lies above ``-margin``, a share."""
        return self.difference_interval[0] > -margin


@dataclass(eq=False)
class TuningScores:
    """The runs so far, by candidate and index of the prompt. ``reference`` is the candidate that others are compared
    with."""

    reference: Candidate
    runs: dict[Candidate, dict[int, TunedRun]] = field(default_factory=dict)

    def add(self, run: TunedRun) -> None:
        self.runs.setdefault(run.candidate, {})[run.index] = run

    def has(self, candidate: Candidate, index: int) -> bool:
        return index in self.runs.get(candidate, {})

    def done(self, candidates: Sequence[Candidate], count: int) -> int:
        """Returns the number of runs of these candidates on prompts below ``count``."""
        return sum(index < count for candidate in candidates for index in self.runs.get(candidate, {}))

    def gains(self, candidate: Candidate, other: Candidate) -> bool:
        """Returns True if a candidate was right more often than another on the same prompts, or saved 5 % of steps."""
        own, others = self.runs.get(candidate, {}), self.runs.get(other, {})
        pairs = [(own[index], others[index]) for index in own.keys() & others.keys()]
        has_saved = sum(run.steps for run, _ in pairs) < 0.95 * sum(before.steps for _, before in pairs)
        return has_saved or sum(run.is_exact - before.is_exact for run, before in pairs) > 0

    def row(self, candidate: Candidate, count: int) -> TuningRow | None:
        """Returns the figures over the prompts below ``count`` that both have answered; None if there are none."""
        usual, own = self.runs.get(self.reference, {}), self.runs.get(candidate, {})
        pairs = [(own[index], usual[index]) for index in sorted(own.keys() & usual.keys()) if index < count]
        if not pairs:
            return None
        steps, usual_steps = ([float(run.steps) for run in runs] for runs in zip(*pairs, strict=True))
        floor = [max(1.0, each) for each in usual_steps]
        return TuningRow(
            candidate,
            len(pairs),
            sum(run.is_exact for run, _ in pairs),
            sum(steps) / len(pairs),
            sum(run.is_exact and not other.is_exact for run, other in pairs),
            sum(other.is_exact and not run.is_exact for run, other in pairs),
            sum(steps) / sum(floor),
            bootstrap(steps, floor),
        )

    def rows(self, candidates: Sequence[Candidate], count: int) -> list[TuningRow]:
        """Returns the rows of those candidates that have any."""
        found = (self.row(candidate, count) for candidate in candidates)
        return [row for row in found if row is not None]


def frontier(rows: Sequence[TuningRow]) -> list[TuningRow]:
    """Returns the rows that no other surpasses in both steps and exactness, the fewest steps first.

    Only rows with as many prompts as the longest take part.
    """
    most = max((row.count for row in rows), default=0)
    best: list[TuningRow] = []
    for row in sorted((row for row in rows if row.count == most), key=lambda row: (row.steps, -row.exact)):
        if not best or row.exact > best[-1].exact:
            best.append(row)
    return best


def choice(rows: Sequence[TuningRow], margin: float) -> TuningRow:
    """Returns the row with the fewest steps among those that are not lower than the reference, the first row.

    Only rows with as many prompts as the reference take part; it takes part itself.
    """
    usual, *others = rows
    allowed = [row for row in others if row.count == usual.count and row.is_not_lower(margin) and row.ratio < 1]
    return min((usual, *allowed), key=lambda row: (row.steps, -row.exact))


def least_count(margin: float) -> int:
    """Returns the fewest prompts with which equal answers show that a rule is not lower than the reference."""
    return math.floor(NORMAL_95**2 * (1 - margin) / margin) + 1
