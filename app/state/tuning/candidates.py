"""Acceptance rules with thresholds, as candidates of a tuning. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine import GenerationConfig, SafelightError
from engine.config import ACCEPTANCE, THRESHOLD_OF
from engine.errors import quoted

FACTORS = {
    "entropy_bound": (0.5, 2, 5, 10),
    "entropy_bound_kept": (0.5, 1, 2, 5, 10),
    "confidence_threshold": (3, 2, 1, 0.5, 0.3, 0.1),
    "margin": (2 / 3, 1, 4 / 3, 2),
}
"""The thresholds that are tried, as factors of the model's default; of a probability's distance to 1."""
MOST_CANDIDATES = 64
_USUAL = GenerationConfig()


@dataclass(frozen=True)
class Candidate:
    """An acceptance rule, one of ``engine.config.ACCEPTANCE``, with its threshold."""

    acceptance: str
    threshold: float

    @property
    def setting(self) -> str:
        """The field of ``GenerationConfig`` with the threshold."""
        return THRESHOLD_OF[self.acceptance]

    @property
    def changes(self) -> dict[str, Any]:
        """The candidate as changes of a ``GenerationConfig``."""
        return {"acceptance": self.acceptance, self.setting: self.threshold}

    @property
    def title(self) -> str:
        return f"{self.acceptance} {self.threshold:g}"


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
    for candidate in found:
        _USUAL.replace(**candidate.changes)
    return found


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
