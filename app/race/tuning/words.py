"""Texts about the result of a tuning, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from app.settings.decoders import option_title
from app.settings.spec import ACCEPTANCE, SAMPLER
from app.state.intervals import percent
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.i18n import tr, trn

_LABELS = {setting.name: setting.label for setting in SAMPLER}


def rule_title(row: TuningRow) -> str:
    """Returns a rule's title with its threshold, by the names in the sampler."""
    title, setting = option_title(ACCEPTANCE, row.candidate.acceptance), tr(_LABELS[row.candidate.setting])
    return tr("{rule}; {setting} {value}", rule=title, setting=setting, value=f"{row.candidate.threshold:g}")


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
    chosen, usual = result.chosen, result.usual
    where = trn(
        "{model}, {task}, {count} prompt:",
        "{model}, {task}, {count} prompts:",
        usual.count,
        model=result.model,
        task=result.task,
    )
    if not result.is_finished:
        return f"{where} {tr('stopped; the same command goes on.')}"
    if chosen is usual:
        return f"{where} {tr('no faster rule is shown to lose no right answers, so that the one of the model stays.')}"
    found = tr(
        "“{rule}” takes {steps:.2f} steps in place of {before:.2f}, with {rate} right in place of {usual}.",
        rule=rule_title(chosen),
        steps=chosen.steps,
        before=usual.steps,
        rate=percent(chosen.rate),
        usual=percent(usual.rate),
    )
    return f"{where} {found}"


def method_words() -> str:
    """Returns what the test of the difference is."""
    return tr(
        "A rule is not lower if the 95 % interval of its difference (Tango's score interval) lies above the margin. "
        "All rules answer the same prompts with the same noise."
    )


def heads() -> list[tuple[str, str]]:
    """Returns the table's column titles, each with its explanation."""
    return [
        (tr("Rule"), tr("Which tokens a step keeps, and its threshold")),
        (tr("Prompts"), tr("Rules that did worse were dropped after fewer prompts")),
        (tr("Right"), tr("Share of right answers, with its 95 % interval")),
        (tr("Steps"), tr("Denoising steps of an answer, on average")),
        (tr("Share of\nsteps"), tr("Steps in per cent of those by the model's own rule, with the 95 % interval")),
        (tr("Difference"), tr("Points of right answers above the model's own rule, with its 95 % interval")),
        (tr("Not lower"), tr("Whether that interval lies above the margin")),
    ]


def cells(result: TuningResult, row: TuningRow) -> tuple[str, ...]:
    """Returns the cells of a table row, in the order of ``heads``; intervals are on a second line."""
    (low, high), (fast, slow), (less, more) = row.interval, row.ratio_interval, row.difference_interval
    is_usual = row is result.usual
    mark = tr("the model's own") if is_usual else tr("chosen") if row is result.chosen else ""
    return (
        "\n".join(filter(None, (rule_title(row), mark))),
        f"{row.count:,}",
        f"{percent(row.rate)}\n({100 * low:.1f}–{100 * high:.1f})",
        f"{row.steps:.2f}",
        "–" if is_usual else f"{percent(row.ratio)}\n({100 * fast:.0f}–{100 * slow:.0f})",
        "–" if is_usual else f"{100 * row.difference:+.1f}\n({100 * less:+.1f} to {100 * more:+.1f})",
        "–" if is_usual else tr("yes") if row.is_not_lower(result.margin) else tr("no"),
    )
