"""Measures the reliability of answers with known labels, before and after fitting a temperature. Knows no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.tasks.decisions.calibration import (
    LEAST_EXAMPLES,
    LabelledRead,
    Reliability,
    fit_temperature,
    reliability,
)


@dataclass(frozen=True)
class Trust:
    """A temperature fitted to some answers, and the reliability of others before and after it.

    Args:
        temperature: 1 if all answers are right, as overconfidence cannot be measured then.
        fitted: number of answers that the temperature was fitted to.
        is_apart: ``before`` and ``after`` are measured on other answers than the fitted ones.
    """

    temperature: float
    fitted: int
    is_apart: bool
    before: Reliability
    after: Reliability

    @property
    def is_fitted(self) -> bool:
        """True if the fitted temperature changes the probabilities."""
        return self.temperature != 1.0


def trust_of(examples: Sequence[LabelledRead]) -> Trust:
    """Fits to every second answer and measures on the others; uses all for both if there are too few to split.

    Raises:
        SafelightError: fewer than ``LEAST_EXAMPLES`` examples.
    """
    is_apart = len(examples) >= 2 * LEAST_EXAMPLES
    fitted, others = (examples[::2], examples[1::2]) if is_apart else (examples, examples)
    temperature = 1.0 if len(fitted) >= LEAST_EXAMPLES and _are_right(fitted) else fit_temperature(fitted)
    return Trust(temperature, len(fitted), is_apart, reliability(others), reliability(others, temperature))


def _are_right(examples: Sequence[LabelledRead]) -> bool:
    return reliability(examples).accuracy == 1.0
