"""Results of races: who won, and of a batch each lane's answers and figures with intervals. No Qt, no torch."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from app.state.intervals import bootstrap, wilson
from app.state.race.prompts import RacePrompt, is_right
from app.state.race.running import LaneFigures, RaceRun, agreement
from app.system.i18n import tr
from engine import SafelightError

LEAST_LEAD = 1.1  # times faster; a smaller lead is a tie, as times on one machine vary so much


@dataclass(frozen=True)
class LaneEnd:
    """A finished lane: its name, its figures and text, its verdict (None if not checkable), why it failed, and the
    agreement of its text with the first lane's, from 0 to 1."""

    name: str
    figures: LaneFigures
    text: str
    is_right: bool | None = None
    problem: str = ""
    agreement: float | None = None


def read_lanes(race: RaceRun, titles: Sequence[str]) -> list[LaneEnd]:
    """Reads and checks the lanes' texts. Takes time with long texts, and with a Sudoku, which is solved."""
    prompt = str(race.request.messages[-1]["content"])
    lane_ends: list[LaneEnd] = []
    for name, lane in zip(short_names(titles), race.lanes, strict=True):
        try:
            text = lane.text
        except SafelightError as error:  # the run's file cannot be read any more
            text = str(error)
        share = agreement(text, lane_ends[0].text) if lane_ends else None
        lane_ends.append(LaneEnd(name, lane.figures, text, is_right(prompt, text), lane.problem, share))
    return lane_ends


def short_names(titles: Sequence[str]) -> list[str]:
    """Returns what distinguishes the lanes: the decoders, the models, or the whole titles of "model · decoder"."""
    parts = [title.split(" · ") for title in titles]
    kinds = ([own[-1] for own in parts], [own[0] for own in parts])
    return next((names for names in kinds if len(set(names)) == len(names)), list(titles))


def headline(lanes: Sequence[LaneEnd]) -> str:
    """Returns who won. Lanes that failed or wrote nothing are named, and leave no winner if there are not two others.

    A wrong answer loses to a right one.
    """
    ended = [lane for lane in lanes if not lane.problem and lane.text.strip()]
    lost = [
        tr("{lane} failed.", lane=lane.name) if lane.problem else tr("{lane} wrote nothing.", lane=lane.name)
        for lane in lanes
        if lane not in ended
    ]
    if len(ended) < 2:
        return tr("No winner: {lost}", lost=" ".join(lost))
    right = [lane for lane in ended if lane.is_right]
    only = tr("{lane}: the only right answer.", lane=right[0].name) if len(right) == 1 else ""
    return " ".join((only or _fastest(right or ended), *lost))


def _fastest(lanes: Sequence[LaneEnd]) -> str:
    """Compares the fastest lane with the next one: by seconds if the texts are equal, else by tokens per second."""
    is_same = all(lane.text == lanes[0].text for lane in lanes)

    def cost(lane: LaneEnd) -> float:
        return lane.figures.seconds if is_same else lane.figures.seconds / max(1, lane.figures.tokens)

    first, second = sorted(lanes, key=cost)[:2]
    ratio = cost(second) / cost(first) if cost(first) > 0 else 1.0
    times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    if ratio < LEAST_LEAD:
        lead = tr("A tie: {first} and {second} are equally fast", first=first.name, second=second.name)
    elif is_same:
        lead = tr("{lane}: {times}× faster", lane=first.name, times=times)
    else:
        lead = tr("{lane}: {times}× as many tokens a second", lane=first.name, times=times)
    said = [lead, tr("same text") if is_same else tr("different texts")]
    mine, other = first.figures.forwards, second.figures.forwards
    if mine != other:
        said.append(tr("{mine} passes instead of {other}", mine=f"{mine:,}", other=f"{other:,}"))
    return tr("{parts}.", parts=", ".join(said))


Interval = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class RaceResult:
    """A lane's answer to one prompt, with its figures.

    Args:
        index: index of the prompt in its batch, from 0.
        lane: title of the lane.
        exact: True if the answer is right; None if no program can check it.
        tokens, steps, forwards, seconds: see ``LaneFigures``.
        agreement: agreement with the first lane's text, from 0 to 1.
    """

    index: int
    lane: str
    prompt: str
    text: str
    reason: str
    exact: bool | None
    tokens: int
    steps: int
    forwards: int
    seconds: float
    agreement: float


def results_of(race: RaceRun, titles: Sequence[str], index: int, prompt: RacePrompt) -> list[RaceResult]:
    """Returns the results of a finished race, without lanes that failed or were stopped."""
    return [
        RaceResult(
            index,
            title,
            prompt.text,
            lane.text,
            lane.reason,
            prompt.is_right(lane.text),
            **asdict(lane.figures),
            agreement=race.agreement(place),
        )
        for place, (title, lane) in enumerate(zip(titles, race.lanes, strict=True))
        if lane.reason in ("eos", "length")
    ]


@dataclass(frozen=True)
class LaneScore:
    """A lane's figures over all of its answers, with 95 % intervals.

    Args:
        count: number of answers.
        checked, exact: number of answers that a program could check, and of right ones among them.
        rate: the share of right answers, from 0 to 1; None if no answer could be checked.
        tokens_per_forward, tokens_per_second: all tokens by all forwards, or by all seconds.
        seconds: mean seconds of an answer.
        agreement: mean agreement with the first lane's texts.
    """

    lane: str
    count: int
    checked: int
    exact: int
    rate: float | None
    exact_interval: Interval
    tokens_per_forward: float
    tokens_per_forward_interval: Interval
    tokens_per_second: float
    tokens_per_second_interval: Interval
    seconds: float
    seconds_interval: Interval
    agreement: float


def score_of(lane: str, results: Sequence[RaceResult]) -> LaneScore:
    """Returns the figures of a lane's results, of which there is at least one."""
    checked = [one.exact for one in results if one.exact is not None]
    tokens = [float(one.tokens) for one in results]
    forwards = [max(1.0, float(one.forwards)) for one in results]
    seconds = [max(1e-9, one.seconds) for one in results]
    return LaneScore(
        lane,
        len(results),
        len(checked),
        sum(checked),
        sum(checked) / len(checked) if checked else None,
        wilson(sum(checked), len(checked)),
        sum(tokens) / sum(forwards),
        bootstrap(tokens, forwards),
        sum(tokens) / sum(seconds),
        bootstrap(tokens, seconds),
        statistics.fmean(seconds),
        bootstrap(seconds, [1.0] * len(results)),
        statistics.fmean(one.agreement for one in results),
    )


def scores_of(results: Sequence[RaceResult]) -> list[LaneScore]:
    """Returns the figures of each lane that has results, in the lanes' order. Slow with many results (bootstrap)."""
    titles = dict.fromkeys(one.lane for one in results)
    return [score_of(title, [one for one in results if one.lane == title]) for title in titles]


def as_csv(results: Sequence[RaceResult]) -> str:
    """Returns the results as CSV, with a line of column names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [one.name for one in fields(RaceResult)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, results))
    return text.getvalue()


def as_json(results: Sequence[RaceResult]) -> dict[str, Any]:
    """Returns the figures of each lane and the single results, for JSON."""
    return {"rows": list(map(asdict, scores_of(results))), "results": list(map(asdict, results))}
