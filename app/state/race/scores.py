"""Results of batches of races: each lane's answers, and its figures with intervals. Knows neither Qt nor torch."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from app.state.intervals import bootstrap, wilson
from app.state.race.lanes import LaneSpec
from app.state.race.prompts import RacePrompt
from app.state.race.running import RaceRun

ALL = ""
"""Stands in place of a group for all groups together."""
Interval = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class RaceResult:
    """A lane's answer to one prompt, with its figures.

    Args:
        index: index of the prompt in its batch, from 0.
        lane: index of the lane, from 0.
        group: group of the prompt: a bin, or a user's own.
        exact: True if the answer is right; None if no program can check it.
        steps, forwards, seconds: see ``LaneFigures``.
        agreement: agreement with the first lane's text, from 0 to 1.
    """

    index: int
    lane: int
    group: str
    prompt: str
    text: str
    reason: str
    exact: bool | None
    tokens: int
    steps: int
    forwards: int
    seconds: float
    agreement: float

    def record(self) -> dict[str, Any]:
        """Returns the result for JSON."""
        return asdict(self)


def results_of(race: RaceRun, index: int, prompt: RacePrompt) -> list[RaceResult]:
    """Returns the results of a finished race, without lanes that failed or were stopped."""
    return [
        RaceResult(
            index,
            place,
            prompt.group,
            prompt.text,
            lane.text,
            lane.reason,
            prompt.is_right(lane.text),
            lane.figures.tokens,
            lane.figures.steps,
            lane.figures.forwards,
            lane.figures.seconds,
            race.agreement(place),
        )
        for place, lane in enumerate(race.lanes)
        if lane.reason in ("eos", "length")
    ]


@dataclass(frozen=True)
class LaneScore:
    """A lane's figures over all of its answers, with 95 % intervals.

    Args:
        count: number of answers.
        checked, exact: number of answers that a program could check, and of right ones among them.
        tokens_per_forward, tokens_per_second: all tokens by all forwards, or by all seconds.
        seconds: mean seconds of an answer.
        agreement: mean agreement with the first lane's texts.
    """

    lane: str
    count: int
    checked: int
    exact: int
    exact_interval: Interval
    tokens_per_forward: float
    tokens_per_forward_interval: Interval
    tokens_per_second: float
    tokens_per_second_interval: Interval
    seconds: float
    seconds_interval: Interval
    agreement: float

    @property
    def rate(self) -> float | None:
        """The share of right answers, from 0 to 1; None if no answer could be checked."""
        return self.exact / self.checked if self.checked else None

    @staticmethod
    def from_results(lane: str, results: Sequence[RaceResult]) -> LaneScore:
        """Returns the figures of one or more results."""
        checked = [one.exact for one in results if one.exact is not None]
        tokens = [float(one.tokens) for one in results]
        forwards = [max(1.0, float(one.forwards)) for one in results]
        seconds = [max(1e-9, one.seconds) for one in results]
        ones = [1.0] * len(results)
        return LaneScore(
            lane,
            len(results),
            len(checked),
            sum(checked),
            wilson(sum(checked), len(checked)),
            sum(tokens) / sum(forwards),
            bootstrap(tokens, forwards),
            sum(tokens) / sum(seconds),
            bootstrap(tokens, seconds),
            statistics.fmean(seconds),
            bootstrap(seconds, ones),
            statistics.fmean(one.agreement for one in results),
        )

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {"rate": self.rate}


@dataclass(eq=False)
class RaceScores:
    """Results in their order of arrival. ``lanes`` holds the lanes' titles, which are unique."""

    lanes: tuple[str, ...]
    results: list[RaceResult] = field(default_factory=list)

    def add(self, results: Sequence[RaceResult]) -> None:
        """Adds the results of one race."""
        self.results += results

    @property
    def count(self) -> int:
        """The number of prompts that at least one lane answered."""
        return len({result.index for result in self.results})

    @property
    def groups(self) -> list[str]:
        """The groups in the order of their first results."""
        return list(dict.fromkeys(result.group for result in self.results))

    def rows(self, group: str | None = None) -> list[LaneScore]:
        """Returns a row for each lane with results, of one group or of all."""
        found: list[LaneScore] = []
        for place, title in enumerate(self.lanes):
            own = [one for one in self.results if one.lane == place and group in (None, one.group)]
            if own:
                found.append(LaneScore.from_results(title, own))
        return found

    def document(self) -> dict[str, Any]:
        """Returns the rows, the rows by group if there are several, and the single results, for JSON."""
        records = {group: [row.record() for row in rows] for group, rows in self.figures().items()}
        return {
            "rows": records.pop(ALL),
            "groups": records,
            "results": [result.record() | {"lane": self.lanes[result.lane]} for result in self.results],
        }

    def figures(self) -> dict[str, list[LaneScore]]:
        """Returns the rows under ``ALL``, and by group if there are several. Slow with many results (bootstrap)."""
        groups = self.groups
        return {ALL: self.rows()} | ({group: self.rows(group) for group in groups} if len(groups) > 1 else {})

    def to_csv(self) -> str:
        """Returns the single results as CSV, with a line of column names."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [one.name for one in fields(RaceResult)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.document()["results"])
        return text.getvalue()


def race_document(
    lanes: Sequence[LaneSpec], scores: RaceScores, asked: Mapping[str, Any], *, finished: bool
) -> dict[str, Any]:
    """Returns a batch for JSON: its lanes, ``asked``, ``finished`` and its scores.

    Args:
        asked: seed, device, dtype, quantization and threads.
        finished: True if the batch ran to its end.
    """
    return {"lanes": [lane.record() for lane in lanes], **asked, "finished": finished, **scores.document()}
