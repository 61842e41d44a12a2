"""Texts of a batch's figures, for tables, plots and assistive technology. Has no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from app.race.words import UNKNOWN
from app.state.intervals import percent
from app.state.race.prompts import OWN
from app.state.race.scores import ALL, Interval, LaneScore
from app.state.sudoku.board import bin_name
from app.system.i18n import tr
from engine.tasks.skills import SKILLS
from engine.tasks.sudoku import BINS

VERDICTS = {True: "✓", False: "✗", None: UNKNOWN}


def group_title(group: str) -> str:
    """Returns the title of a group: a skill, a bin of puzzles, a kind of drawing question, own or all prompts."""
    if group in SKILLS:
        return tr(SKILLS[group].title)
    known = {ALL: tr("All prompts"), OWN: tr("Own prompts")}
    return next((bin_name(name).capitalize() for name in BINS if name == group), known.get(group, group.capitalize()))


def heads() -> list[tuple[str, str]]:
    """Returns the table's column titles, each with its explanation."""
    return [
        (tr("Lane"), tr("A model, what is on it, and how it decodes")),
        (tr("Exact"), tr("Share of right answers, of those that a program can check, with its 95 % interval")),
        (tr("Tokens/forward"), tr("Tokens of the texts, by the passes behind the prompt, with its 95 % interval")),
        (tr("Tokens/s"), tr("Tokens of the texts, by the lane's own seconds, with its 95 % interval")),
        (tr("Seconds"), tr("An answer without its prompt: the mean, in seconds, with its 95 % interval")),
        (tr("Agreement"), tr("Characters in common with lane 1, in the same order: the mean")),
        (tr("Answers"), tr("Prompts that this lane has answered")),
    ]


def cells(title: str, row: LaneScore) -> tuple[str, ...]:
    """Returns the cells of a table row, in the order of ``heads``."""
    exact = UNKNOWN if row.rate is None else f"{percent(row.rate)} {_span(row.exact_interval, 100, 0)}"
    return (
        title,
        exact,
        f"{row.tokens_per_forward:.2f} {_span(row.tokens_per_forward_interval, 1, 2)}",
        f"{row.tokens_per_second:,.0f} {_span(row.tokens_per_second_interval, 1, 0)}",
        f"{row.seconds:.3f} {_span(row.seconds_interval, 1, 3)}",
        percent(row.agreement),
        f"{row.count:,}",
    )


def summary(titles: Sequence[str], rows: Sequence[LaneScore], places: Sequence[int]) -> str:
    """Returns one line with the number of right answers of each lane; ``places`` are the rows' lane indices."""
    parts = []
    for place, row in zip(places, rows, strict=True):
        if row.checked:
            said = tr("{exact} of {count} right", exact=row.exact, count=row.checked)
            parts.append(tr("{lane}: {said}", lane=titles[place], said=said))
    return " · ".join(parts)


def _span(ends: Interval, factor: float, digits: int) -> str:
    low, high = (f"{factor * end:,.{digits}f}" for end in ends)
    return f"({low}–{high})"
