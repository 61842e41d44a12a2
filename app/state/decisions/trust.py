"""How far answers with known labels can be trusted, before and after a temperature is fitted. Knows no Qt."""

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
    """A temperature fitted to some answers, and what it changes on others.

    Args:
        temperature: 1 where all of the answers are right: then nothing tells how sure is too sure.
        fitted: answers that the temperature was fitted to.
        is_apart: ``before`` and ``after`` are of other answers than those.
    """

    temperature: float
    fitted: int
    is_apart: bool
    before: Reliability
    after: Reliability

    @property
    def is_fitted(self) -> bool:
        """Whether there was anything to fit."""
        return self.temperature != 1.0


def trust_of(examples: Sequence[LabelledRead]) -> Trust:
    """Fit to every second answer and measure on the others; on all of them where there are too few to be split.

    Raises:
        SafelightError: fewer than ``LEAST_EXAMPLES`` examples.
    """
    is_apart = len(examples) >= 2 * LEAST_EXAMPLES
    fitted, others = (examples[::2], examples[1::2]) if is_apart else (examples, examples)
    temperature = 1.0 if len(fitted) >= LEAST_EXAMPLES and _are_right(fitted) else fit_temperature(fitted)
    return Trust(temperature, len(fitted), is_apart, reliability(others), reliability(others, temperature))


def _are_right(examples: Sequence[LabelledRead]) -> bool:
    return reliability(examples).accuracy == 1.0
