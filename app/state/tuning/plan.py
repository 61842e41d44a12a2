"""The order of a tuning's runs: all candidates on all prompts, or successive halving. No Qt, no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.state.tuning.candidates import Candidate
from app.state.tuning.scores import TuningRow, TuningScores, choice

SHARES = (8, 4, 2, 1)  # a rung has this part of all prompts
SHORTEST = 20  # prompts of a rung
FEWEST = 4  # candidates that a rung keeps
MORE = 4  # candidates that go on after all while none of the last rung's can be chosen


@dataclass(frozen=True)
class TuningPlan:
    """The candidates, the reference first, and the prompts they are compared on.

    Args:
        count: prompts of the last rung.
        margin: how much lower than the reference's the exactness may be, as a share.
        halves: whether only the better half of the candidates goes on to a rung twice as long; the reference always
            does.
    """

    candidates: tuple[Candidate, ...]
    count: int
    margin: float
    halves: bool

    @property
    def rungs(self) -> list[int]:
        """The prompts of each rung, those of the rungs before included."""
        if not self.halves:
            return [self.count]
        return [self.count // share for share in SHARES if share == 1 or self.count // share >= SHORTEST]

    @property
    def runs(self) -> int:
        """The number of runs in all."""
        before, left, total = 0, len(self.candidates) - 1, 0
        for rung in self.rungs:
            total += (rung - before) * (left + 1)
            before, left = rung, min(left, kept_of(left))
        return total

    def pairs(self, scores: TuningScores) -> Iterator[tuple[Candidate, int]]:
        """Yields each candidate and index of a prompt to run next; each result is added to ``scores`` before the next.

        All candidates of a rung answer a prompt before the next prompt, so that an early end leaves them comparable.
        What ``scores`` has already is passed over.
        """
        usual, *others = self.candidates
        for rung in self.rungs:
            for index in range(rung):
                for candidate in (usual, *others):
                    if not scores.has(candidate, index):
                        yield candidate, index
            if rung < self.count:
                others = [row.candidate for row in self.better_half(scores.rows(others, rung))]
        if self.halves:
            yield from self._more(scores)

    def _more(self, scores: TuningScores) -> Iterator[tuple[Candidate, int]]:
        """Yields the runs of the best dropped candidates in turn, while only the reference can be chosen."""
        for _ in range(MORE):
            rows = scores.rows(self.candidates, self.count)
            dropped = self.ranked([row for row in rows if row.count < self.count and row.ratio < 1])
            if not dropped or not self.may_pass(dropped[0]) or choice(rows, self.margin) is not rows[0]:
                return
            best = dropped[0].candidate
            yield from ((best, index) for index in range(self.count) if not scores.has(best, index))

    def may_pass(self, row: TuningRow) -> bool:
        return row.may_pass(self.margin, self.count)

    def ranked(self, rows: Sequence[TuningRow]) -> list[TuningRow]:
        """Returns the rows, the best first: those that may pass, then the others, each by their steps."""
        return sorted(rows, key=lambda row: (not self.may_pass(row), row.steps, -row.exact))

    def better_half(self, rows: Sequence[TuningRow]) -> list[TuningRow]:
        """Returns the rows that go on to the next rung, the best first."""
        return self.ranked(rows)[: kept_of(len(rows))]


def kept_of(count: int) -> int:
    """Returns how many of ``count`` candidates go on to the next rung."""
    return max(FEWEST, math.ceil(count / 2))
