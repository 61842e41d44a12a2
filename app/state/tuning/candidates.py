"""Acceptance rules with their numbers, as candidates of a tuning. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine import GenerationConfig, SafelightError
from engine.config import ACCEPTANCE, THRESHOLD_OF
from engine.errors import quoted

FACTORS = {
    "entropy_bound": (0.5, 2, 10),
    "entropy_bound_kept": (0.5, 1, 2, 5, 8, 10),
    "confidence_threshold": (3, 2, 1, 0.5, 0.3, 0.1),
    "margin": (2 / 3, 1, 4 / 3, 2),
}
"""The thresholds that are tried, as factors of the model's default; of a probability's distance to 1."""
MOST_CANDIDATES = 64  # without variants
VARIED = ("t_max", "t_min", "stall_steps", "stall_fall")
"""The settings that are varied besides a rule and its threshold."""
Variation = tuple[tuple[str, float], ...]
"""Names and values of some of ``VARIED``, in their order; the others are the model's own."""
HOTTER: Variation = (("t_max", 1.0), ("t_min", 0.8))
STALLING: Variation = (("stall_steps", 6), ("stall_fall", 0.2))
_USUAL = GenerationConfig()


@dataclass(frozen=True)
class Candidate:
    """An acceptance rule, one of ``engine.config.ACCEPTANCE``, with its threshold, and other settings with it."""

    acceptance: str
    threshold: float
    variation: Variation = ()

    @property
    def setting(self) -> str:
        """The field of ``GenerationConfig`` with the threshold."""
        return THRESHOLD_OF[self.acceptance]

    @property
    def changes(self) -> dict[str, Any]:
        """The candidate as changes of a ``GenerationConfig``."""
        return {"acceptance": self.acceptance, **self.numbers}

    @property
    def numbers(self) -> dict[str, float]:
        """The candidate's numbers, by the names of their settings."""
        return {self.setting: self.threshold, **dict(self.variation)}

    @property
    def title(self) -> str:
        others = "".join(f", {name} {value:g}" for name, value in self.variation)
        return f"{self.acceptance} {self.threshold:g}{others}"


def stored_candidate(acceptance: str, threshold: float, others: Mapping[str, Any]) -> Candidate:
    """Returns a candidate as it was stored, with the names and values of its variation.

    Raises:
        SafelightError: there is no such rule, or a number is out of range.
    """
    if acceptance not in ACCEPTANCE or not others.keys() <= {*VARIED}:
        raise SafelightError(f"{quoted(acceptance)} with {quoted(list(others))} is not a candidate of a tuning")
    numbers = (threshold, *others.values())
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in numbers):
        raise SafelightError(f"{quoted(numbers)} are not the numbers of a candidate")
    return _checked(Candidate(acceptance, threshold, tuple((name, others[name]) for name in VARIED if name in others)))


@lru_cache(maxsize=1_024)
def _checked(candidate: Candidate) -> Candidate:
    _USUAL.replace(**candidate.changes)
    return candidate


def reference_of(defaults: GenerationConfig) -> Candidate:
    """Returns the rule that a model has by default."""
    return Candidate(defaults.acceptance, getattr(defaults, THRESHOLD_OF[defaults.acceptance]))


def grid(defaults: GenerationConfig) -> tuple[Candidate, ...]:
    """Returns the reference, and every rule with thresholds around a model's defaults."""
    found = [reference_of(defaults)]
    for acceptance, factors in FACTORS.items():
        setting = THRESHOLD_OF[acceptance]
        usual = getattr(defaults, setting)
        if setting == "accept_probability":
            away = 1 - (usual if 0 < usual < 1 else _USUAL.accept_probability)
            values = [1 - away * factor for factor in factors if away * factor < 1]
        else:
            values = [(usual or getattr(_USUAL, setting)) * factor for factor in factors]
        found += [Candidate(acceptance, float(f"{value:.3g}")) for value in values]
    return tuple(dict.fromkeys(found))


def variations(defaults: GenerationConfig) -> tuple[Variation, ...]:
    """Returns what the best rules are also tried with: a hotter canvas, and an end of blocks that stall.

    What a model has by default already is left out. Both together are, too: few blocks of a hotter canvas settle before
    they count as stalled, so that nothing is left of what the heat wins.
    """
    (_, t_max), (_, t_min) = HOTTER
    is_cooler = defaults.t_max <= t_max and defaults.t_min <= t_min and defaults.t_max + defaults.t_min < t_max + t_min
    return (*((HOTTER,) if is_cooler else ()), *(() if defaults.stall_steps else (STALLING,)))


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
        found = tuple(Candidate(acceptance, float(value)) for value in values.split(","))
    except ValueError:
        raise SafelightError(f"{quoted(values)} are not numbers; write the thresholds of {acceptance} as X,X") from None
    return tuple(_checked(candidate) for candidate in found)


def with_reference(defaults: GenerationConfig, chosen: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Returns the reference and the chosen candidates, each once.

    Raises:
        SafelightError: there are too many, or none besides the reference.
    """
    found = tuple(dict.fromkeys((reference_of(defaults), *chosen)))
    if not 2 <= len(found) <= MOST_CANDIDATES:
        raise SafelightError(
            f"a tuning compares 1 to {MOST_CANDIDATES - 1} rules with the model's own, not {len(found) - 1}; "
            "change --rule"
        )
    return found
