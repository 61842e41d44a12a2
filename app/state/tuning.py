"""Acceptance rules tried on the same prompts, with the model's own as the reference. Knows neither Qt nor torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.state.intervals import NORMAL_95, bootstrap, paired_difference, wilson
from engine import GenerationConfig, SafelightError
from engine.decoders import ACCEPTANCE
from engine.errors import quoted

_USUAL = GenerationConfig()


@dataclass(frozen=True)
class Candidate:
    """An acceptance rule, one of ``engine.decoders.ACCEPTANCE``, with its threshold."""

    acceptance: str
    threshold: float

    @property
    def changes(self) -> dict[str, Any]:
        """The candidate as changes of a ``GenerationConfig``."""
        return {"acceptance": self.acceptance, ACCEPTANCE[self.acceptance].threshold: self.threshold}

    @property
    def title(self) -> str:
        return f"{self.acceptance} {self.threshold:g}"


def reference_of(defaults: GenerationConfig) -> Candidate:
    """Returns the rule that a model has by default."""
    return Candidate(defaults.acceptance, getattr(defaults, ACCEPTANCE[defaults.acceptance].threshold))


def grid(defaults: GenerationConfig) -> tuple[Candidate, ...]:
    """Returns the reference, and every rule with thresholds around a model's defaults."""
    candidates = [reference_of(defaults)]
    for rule in ACCEPTANCE.values():
        setting, factors = rule.threshold, rule.tried
        usual = getattr(defaults, setting)
        if setting == "accept_probability":
            away = 1 - (usual if 0 < usual < 1 else _USUAL.accept_probability)
            values = [1 - away * factor for factor in factors if away * factor < 1]
        else:
            values = [(usual or getattr(_USUAL, setting)) * factor for factor in factors]
        candidates += [Candidate(rule.name, float(f"{value:.3g}")) for value in values]
    return tuple(dict.fromkeys(candidates))


def read_rule(text: str) -> tuple[Candidate, ...]:
    """Reads ``RULE=THRESHOLD,…``.

    Raises:
        SafelightError: there is no such rule, or a threshold is out of range.
    """
    acceptance, sign, values = text.partition("=")
    if acceptance not in ACCEPTANCE or not sign:
        rules = ", ".join(ACCEPTANCE)
        raise SafelightError(f"{quoted(text)} is not a rule with thresholds; write RULE=X,X with one of {rules}")
    try:
        candidates = tuple(Candidate(acceptance, float(value)) for value in values.split(","))
    except ValueError:
        raise SafelightError(f"{quoted(values)} are not numbers; write the thresholds of {acceptance} as X,X") from None
    for candidate in candidates:
        _USUAL.replace(**candidate.changes)
    return candidates


def with_reference(defaults: GenerationConfig, chosen: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Returns the reference and the chosen candidates, each once.

    Raises:
        SafelightError: there are none besides the reference.
    """
    candidates = tuple(dict.fromkeys((reference_of(defaults), *chosen)))
    if len(candidates) < 2:
        raise SafelightError("this is the model's own rule alone; change --rule")
    return candidates


@dataclass(frozen=True)
class TunedRun:
    """A candidate's answer to a prompt; ``steps`` are its denoising steps."""

    is_exact: bool
    steps: int


@dataclass(frozen=True)
class TuningRow:
    """A candidate's figures, next to the reference's on the same prompts; intervals are of 95 %.

    Args:
        rate: share of right answers, with Wilson's interval.
        steps: mean denoising steps of an answer.
        ratio: the candidate's steps by the reference's.
        difference: of the rates, with Tango's interval for pairs.
    """

    rule: str
    threshold: float
    count: int
    exact: int
    rate: float
    rate_interval: tuple[float, float]
    steps: float
    ratio: float
    ratio_interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.rule, self.threshold)

    def is_not_lower(self, margin: float) -> bool:
        """Returns True if the whole interval of the difference lies above ``-margin``, a share."""
        return self.difference_interval[0] > -margin


def rows_of(runs: Mapping[Candidate, Sequence[TunedRun]]) -> list[TuningRow]:
    """Returns a row for each candidate, over the prompts that all have answered; the reference is the first.

    Args:
        runs: of each candidate, in the order of the prompts.
    """
    count = min(map(len, runs.values()), default=0)
    if not count:
        return []
    usual = next(iter(runs.values()))[:count]
    return [_row(candidate, own[:count], usual) for candidate, own in runs.items()]


def _row(candidate: Candidate, own: Sequence[TunedRun], usual: Sequence[TunedRun]) -> TuningRow:
    count, exact = len(own), sum(run.is_exact for run in own)
    better = sum(run.is_exact and not other.is_exact for run, other in zip(own, usual, strict=True))
    worse = sum(other.is_exact and not run.is_exact for run, other in zip(own, usual, strict=True))
    steps, floor = [float(run.steps) for run in own], [max(1.0, run.steps) for run in usual]
    return TuningRow(
        candidate.acceptance,
        candidate.threshold,
        count,
        exact,
        exact / count,
        wilson(exact, count),
        sum(steps) / count,
        sum(steps) / sum(floor),
        bootstrap(steps, floor),
        (better - worse) / count,
        paired_difference(better, worse, count),
    )


def choice(rows: Sequence[TuningRow], margin: float) -> TuningRow:
    """Returns the row with the fewest steps of those that are not lower than the reference, the first row."""
    usual, *others = rows
    allowed = [row for row in others if row.is_not_lower(margin) and row.ratio < 1]
    return min((usual, *allowed), key=lambda row: (row.steps, -row.exact))


def least_count(margin: float) -> int:
    """Returns the fewest prompts with which equal answers show that a rule is not lower than the reference."""
    return math.floor(NORMAL_95**2 * (1 - margin) / margin) + 1


def record(row: TuningRow, margin: float) -> dict[str, Any]:
    """Returns a row for JSON and CSV."""
    return asdict(row) | {"not_lower": row.is_not_lower(margin)}
