"""The figures of a tuning as texts, for the terminal and the window. Knows neither Qt nor torch."""

from __future__ import annotations

from typing import NamedTuple

from app.state.intervals import percent
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.i18n import tr

NONE = "–"


class Figure(NamedTuple):
    """A figure, with its 95 % interval in brackets; that is empty if it has none."""

    text: str
    interval: str = ""

    def joined(self, sign: str) -> str:
        return sign.join(filter(None, self))


def figures(result: TuningResult, row: TuningRow) -> tuple[Figure, ...]:
    """Returns a row's prompts, right answers, steps, share of the reference's steps, difference, and test."""
    (low, high), (fast, slow), (less, more) = row.interval, row.ratio_interval, row.difference_interval
    own = (
        Figure(f"{row.count:,}"),
        Figure(percent(row.rate), f"({100 * low:.1f}–{100 * high:.1f})"),
        Figure(f"{row.steps:.2f}"),
    )
    if row is result.usual:
        return (*own, *[Figure(NONE)] * 3)
    return (
        *own,
        Figure(percent(row.ratio), f"({100 * fast:.0f}–{100 * slow:.0f})"),
        Figure(
            f"{100 * row.difference:+.1f}",
            tr("({low} to {high})", low=f"{100 * less:+.1f}", high=f"{100 * more:+.1f}"),
        ),
        Figure(tr("yes") if row.is_not_lower(result.margin) else tr("no")),
    )


def found_in_words(result: TuningResult, rule: str) -> str:
    """Describes what a tuning has found; ``rule`` is the chosen setting."""
    chosen, usual = result.chosen, result.usual
    if not result.is_finished:
        return tr("stopped; the same command goes on.")
    if chosen is usual:
        return tr("no faster rule is shown to lose no right answers, so that the one of the model stays.")
    return tr(
        "“{rule}” takes {steps:.2f} steps in place of {before:.2f}, with {rate} right in place of {usual}.",
        rule=rule,
        steps=chosen.steps,
        before=usual.steps,
        rate=percent(chosen.rate),
        usual=percent(usual.rate),
    )
