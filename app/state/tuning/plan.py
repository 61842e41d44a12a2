"""The order of a tuning's runs: all candidates on all prompts, or successive halving. No Qt, no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.state.tuning.candidates import Candidate, Variation
from app.state.tuning.scores import TuningRow, TuningScores, choice

SHARES = (8, 4, 2, 1)  # a rung has this part of all prompts
SHORTEST = 20  # prompts of a rung
FEWEST, FEWEST_VARIANTS = 4, 2  # candidates that a rung keeps, and of each variation
MORE = 4  # candidates that go on after all while they may be faster than what can be chosen
BEST = 4  # candidates of the first rung that are varied, besides the reference
GAIN = 0.05  # how much lower they may be than others: a hotter canvas loses fewer right answers to a bold rule


@dataclass(frozen=True)
class TuningPlan:
    """The candidates, the reference first, and the prompts they are compared on.

    Args:
        count: prompts of the last rung.
        margin: how much lower than the reference's the exactness may be, as a share.
        halves: whether only the better half of the candidates goes on to a rung twice as long; the reference always
            does.
        variations: what the best of the first rung are also tried with, from the second rung on.
    """

    candidates: tuple[Candidate, ...]
    count: int
    margin: float
    halves: bool
    variations: tuple[Variation, ...] = ()

    @property
    def rungs(self) -> list[int]:
        """The prompts of each rung, those of the rungs before included."""
        if not self.halves:
            return [self.count]
        return [self.count // share for share in SHARES if share == 1 or self.count // share >= SHORTEST]

    @property
    def runs(self) -> int:
        """The most runs in all, but for those of dropped candidates that go on."""
        before, left, varied, total = 0, len(self.candidates) - 1, 0, 0
        for rung in self.rungs:
            total += (rung - before) * (1 + left + varied * len(self.variations))
            left = kept_of(left)
            varied = kept_of(varied, FEWEST_VARIANTS) if before else min(1 + BEST, len(self.candidates))
            if not before and rung < self.count:
                total += rung * varied * len(self.variations)
            before = rung
        return total

    def pairs(self, scores: TuningScores) -> Iterator[tuple[Candidate, int]]:
        """Yields each candidate and index of a prompt to run next; each result is added to ``scores`` before the next.

        All candidates of a rung answer a prompt before the next prompt, so that an early end leaves them comparable.
        What ``scores`` has already is passed over.
        """
        usual, *others = self.candidates
        variants: tuple[Candidate, ...] = ()
        for place, rung in enumerate(self.rungs):
            for index in range(rung):
                for candidate in (usual, *others, *variants):
                    if not scores.has(candidate, index):
                        yield candidate, index
            if rung < self.count:
                others = [row.candidate for row in self.better_half(scores.rows(others, rung))]
                variants = self.better_variants(variants, rung, scores) if place else self.variants(scores)
        if self.halves:
            yield from self._more(scores)

    def _more(self, scores: TuningScores) -> Iterator[tuple[Candidate, int]]:
        """Yields the runs of the best dropped candidates in turn, while they may be faster than what can be chosen.

        Steps are compared on the prompts of the first rung, which all have answered.
        """
        for _ in range(MORE):
            tried = [one for one in self.tried(scores) if not one.variation or gains(one, scores)]
            rows = scores.rows(tried, self.count)
            steps = {row.candidate: row.steps for row in scores.rows(tried, self.rungs[0])}
            most = steps[choice(rows, self.margin).candidate]
            dropped = [row for row in rows if row.count < self.count and self.may_pass(row)]
            best = min((row.candidate for row in dropped), key=steps.__getitem__, default=None)
            if best is None or steps[best] >= most:
                return
            yield from ((best, index) for index in range(self.count) if not scores.has(best, index))

    def variants(self, scores: TuningScores) -> tuple[Candidate, ...]:
        """Returns the reference and the best of the first rung with each variation; none before that is complete."""
        first = self.rungs[0]
        if first == self.count or scores.done(self.candidates, first) < first * len(self.candidates):
            return ()
        lenient = replace(self, margin=self.margin + GAIN)
        rows = [row for row in scores.rows(self.candidates[1:], first) if lenient.may_pass(row)]
        best = [row.candidate for row in lenient.ranked(rows)]
        return tuple(
            replace(candidate, variation=variation)
            for candidate in (self.candidates[0], *best[:BEST])
            for variation in self.variations
        )

    def better_variants(self, variants: Sequence[Candidate], rung: int, scores: TuningScores) -> tuple[Candidate, ...]:
        """Returns the better half of each variation, without those that gain nothing over the rule without it."""
        found: list[TuningRow] = []
        for variation in self.variations:
            own = [one for one in variants if one.variation == variation]
            rows = scores.rows([one for one in own if gains(one, scores)], rung)
            found += self.ranked(rows)[: kept_of(len(own), FEWEST_VARIANTS)]
        return tuple(row.candidate for row in found)

    def tried(self, scores: TuningScores) -> tuple[Candidate, ...]:
        """Returns the candidates, and the variants of the best."""
        return (*self.candidates, *self.variants(scores))

    def may_pass(self, row: TuningRow) -> bool:
        return row.may_pass(self.margin, self.count)

    def ranked(self, rows: Sequence[TuningRow]) -> list[TuningRow]:
        """Returns the rows, the best first: those that may pass, then the others, each by their steps."""
        return sorted(rows, key=lambda row: (not self.may_pass(row), row.steps, -row.exact))

    def better_half(self, rows: Sequence[TuningRow]) -> list[TuningRow]:
        """Returns the rows that go on to the next rung, the best first."""
        return self.ranked(rows)[: kept_of(len(rows))]


def gains(variant: Candidate, scores: TuningScores) -> bool:
    """Returns True if a variant so far is right more often than its rule, or clearly faster."""
    return scores.gains(variant, replace(variant, variation=()))


def kept_of(count: int, fewest: int = FEWEST) -> int:
    """Returns how many of ``count`` candidates go on to the next rung."""
    return min(count, max(fewest, math.ceil(count / 2)))
