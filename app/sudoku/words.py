"""Texts about runs, bins of puzzles and scores, for labels, tables and tool tips. Has no widgets."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.intervals import percent
from app.state.sudoku.board import bin_name
from app.state.sudoku.scores import ALL, Scoreboard, ScoreRow
from app.state.sudoku.solve_frame import SolveFrame
from app.system.i18n import tr, trn
from engine import GenerationFinished, PrefillFinished, Recording, StepFinished
from engine.tasks.sudoku import GIVENS, Bin

SAMPLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
"""The puzzle shown at first, so that one click solves something."""

UNKNOWN = "–"


@dataclass(frozen=True)
class RunCost:
    """The steps and seconds of a run."""

    steps: int
    seconds: float  # of prefill and denoising, without the pace at which it was shown
    is_stopped: bool  # by the user

    @staticmethod
    def from_trace(trace: Recording) -> RunCost:
        """Returns the cost of a run as far as it is recorded."""
        steps, seconds, ended = 0, 0.0, None
        for event in trace.events:
            match event:
                case PrefillFinished():
                    seconds += event.seconds
                case StepFinished():
                    steps += 1
                    seconds += event.seconds
                case GenerationFinished():
                    ended = event
        return RunCost(steps, seconds, ended is not None and ended.reason == "cancelled")

    @property
    def words(self) -> str:
        """A text like "7 steps, 0.12 s"."""
        return tr("{steps}, {seconds} s", steps=steps_text(self.steps), seconds=f"{self.seconds:.2f}")


def steps_text(count: int) -> str:
    return trn("{count} step", "{count} steps", count)


def result_text(frame: SolveFrame | None, cost: RunCost, problem: str = "") -> str:
    """Returns a run's result: the problem, or else the solver's verdict with steps and seconds."""
    if problem:
        return problem
    if cost.is_stopped:
        return tr("Stopped before the end. {spent}.", spent=cost.words)
    if frame is None or frame.verdict is None:
        return tr("The run ended without an answer. {spent}.", spent=cost.words)
    return tr("{verdict} {spent}.", verdict=frame.verdict.text, spent=cost.words)


def figures(frame: SolveFrame | None) -> tuple[str, str, str]:
    """Returns step, mean entropy and accepted cells of a frame, as texts."""
    if frame is None or frame.step < 0:
        return UNKNOWN, UNKNOWN, UNKNOWN
    entropy = UNKNOWN if frame.entropy is None else tr("{entropy} nats", entropy=f"{frame.entropy:.2f}")
    return str(frame.steps), entropy, tr("{accepted} of {cells}", accepted=frame.accepted, cells=len(frame.cells))


def bin_title(bin: Bin) -> str:
    """Returns a bin's title for its button."""
    return bin_name(bin).capitalize()


def bin_tip(bin: Bin) -> str:
    """Returns the explanation of a bin."""
    givens = GIVENS[bin]
    return tr("A fresh puzzle with {low} to {high} givens and one solution", low=givens.low, high=givens.high)


def title_of(name: str) -> str:
    """Returns the title of a bin, or of all bins."""
    return tr("All") if name == ALL else bin_name(name).capitalize()


def with_givens(name: Bin) -> str:
    """Returns a bin's title with its range of givens."""
    span = GIVENS[name]
    return tr("{bin}, {low}–{high} givens", bin=title_of(name), low=span.low, high=span.high)


def short_with_givens(name: Bin) -> str:
    """Returns a bin's title with its range of givens, in short."""
    span = GIVENS[name]
    return tr("{bin} {low}–{high}", bin=title_of(name), low=span.low, high=span.high)


def rate_with_interval(row: ScoreRow) -> str:
    """Returns the rate and its interval, in per cent."""
    return f"{100 * row.rate:.1f} %  ({100 * row.low:.0f}–{100 * row.high:.0f})"


def cells_of(row: ScoreRow, *, named: bool) -> tuple[str, ...]:
    """Returns the cells of a table row, in the order of ``heads``; with ``named`` also the contender."""
    return (
        title_of(row.bin),
        *((row.contender,) if named else ()),
        f"{row.solved}/{row.count}",
        rate_with_interval(row),
        percent(row.cell_accuracy),
        percent(row.givens_kept),
        f"{row.mean_steps:.1f}  ({row.median_steps:g})",
        f"{row.mean_seconds:.2f}",
    )


def heads(*, named: bool) -> list[tuple[str, str]]:
    """Returns the table's column titles, each with its explanation."""
    return [
        (tr("Puzzles"), tr("By the number of givens: easy from 40, medium from 30, hard below")),
        *(((tr("By"), tr("The model, with its adapter if it has one")),) if named else ()),
        (tr("Solved"), tr("Puzzles solved exactly, of those run")),
        (tr("Rate (95 %)"), tr("Share solved; the true rate lies in the interval 19 times of 20")),
        (tr("Cells"), tr("Blanks filled with the right digit, of all blanks")),
        (tr("Givens"), tr("Answers in which every given stands where it stood")),
        (tr("Steps (median)"), tr("Denoising steps a puzzle: the mean, and the puzzle in the middle")),
        (tr("Seconds"), tr("A puzzle's prefill and denoising: the mean, in seconds")),
    ]


def spoken(scores: Scoreboard) -> str:
    """Returns all rates as sentences, for assistive technology."""
    lines = [
        tr(
            "{bin}, {contender}: {solved} of {count} solved, {rate:.1f} %, interval {low:.1f} to {high:.1f} %.",
            bin=title_of(row.bin),
            contender=row.contender or tr("the model"),
            solved=row.solved,
            count=row.count,
            rate=100 * row.rate,
            low=100 * row.low,
            high=100 * row.high,
        )
        for row in scores.rows_to_show()
    ]
    return " ".join([tr("Share of puzzles solved."), *lines])


def summary(scores: Scoreboard) -> str:
    """Returns the contenders' rates over all bins, in one line."""
    rows = [row for row in scores.rows() if row.bin == ALL]
    parts = []
    for row in rows:
        text = tr("{solved} of {count} solved, {rate}", solved=row.solved, count=row.count, rate=percent(row.rate))
        parts.append(f"{row.contender}: {text}" if len(rows) > 1 else text)
    return " · ".join(parts)
