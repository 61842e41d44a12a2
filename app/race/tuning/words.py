"""Texts about the result of a tuning, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from app.settings.decoders import option_title
from app.settings.spec import ACCEPTANCE, SAMPLER
from app.state.intervals import percent
from app.state.tuning.figures import figures, found_in_words
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.i18n import tr, trn

_LABELS = {setting.name: setting.label for setting in SAMPLER}


def rule_title(row: TuningRow) -> str:
    """Returns a rule's title with its numbers, by the names in the sampler."""
    title = option_title(ACCEPTANCE, row.candidate.acceptance)
    for name, value in row.candidate.numbers.items():
        title = tr("{rule}; {setting} {value}", rule=title, setting=tr(_LABELS[name]), value=f"{value:g}")
    return title


def row_words(row: TuningRow) -> str:
    """Returns a row's figures as a sentence."""
    low, high = row.interval
    return tr(
        "{rule}: {rate} right, interval {low:.1f} to {high:.1f} %, {steps:.2f} steps.",
        rule=rule_title(row),
        rate=percent(row.rate),
        low=100 * low,
        high=100 * high,
        steps=row.steps,
    )


def heading(result: TuningResult) -> str:
    """Returns what a tuning has found, in one or two sentences."""
    where = trn(
        "{model}, {task}, {count} prompt:",
        "{model}, {task}, {count} prompts:",
        result.usual.count,
        model=result.model,
        task=result.task,
    )
    return f"{where} {found_in_words(result, rule_title(result.chosen))}"


def method_words() -> str:
    """Returns what the test of the difference is."""
    return tr(
        "A rule is not lower if the 95 % interval of its difference (Tango's score interval) lies above the margin. "
        "All rules answer the same prompts with the same noise."
    )


def heads() -> list[tuple[str, str]]:
    """Returns the table's column titles, each with its explanation."""
    return [
        (tr("Rule"), tr("Which tokens a step keeps, its threshold, and what else was set")),
        (tr("Prompts"), tr("Rules that did worse were dropped after fewer prompts")),
        (tr("Right"), tr("Share of right answers, with its 95 % interval")),
        (tr("Steps"), tr("Denoising steps of an answer, on average")),
        (tr("Share of\nsteps"), tr("Steps in per cent of those by the model's own rule, with the 95 % interval")),
        (tr("Difference"), tr("Points of right answers above the model's own rule, with its 95 % interval")),
        (tr("Not lower"), tr("Whether that interval lies above the margin")),
    ]


def cells(result: TuningResult, row: TuningRow) -> tuple[str, ...]:
    """Returns the cells of a table row, in the order of ``heads``; intervals are on a second line."""
    mark = tr("the model's own") if row is result.usual else tr("chosen") if row is result.chosen else ""
    return "\n".join(filter(None, (rule_title(row), mark))), *(one.joined("\n") for one in figures(result, row))
