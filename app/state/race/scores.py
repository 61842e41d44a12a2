"""What batches of races come to: each lane's answers, and its figures with their intervals. Without Qt and torch."""

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
from engine.pictures import Picture

ALL = ""
"""In place of a group: all of them."""
Interval = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclass(frozen=True)
class RaceResult:
    """What a lane answered to one prompt, and what it took.

    Args:
        index: of the prompt in its batch, from 0.
        lane: from 0.
        group: of the prompt: a skill, a bin, or a user's own.
        exact: whether the answer is right; None where no program can tell.
        steps, forwards, seconds: as in ``LaneFigures``.
        agreement: with the first lane's text, from 0 to 1.
        pictures: that the prompt shows; not in files.
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
    pictures: tuple[Picture, ...] = ()

    def record(self) -> dict[str, Any]:
        """The result for JSON."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(one.name for one in fields(RaceResult) if one.name != "pictures")


def results_of(race: RaceRun, index: int, prompt: RacePrompt) -> list[RaceResult]:
    """Of a race that is over; lanes that failed or were stopped are left out."""
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
            prompt.pictures,
        )
        for place, lane in enumerate(race.lanes)
        if lane.reason in ("eos", "length")
    ]


@dataclass(frozen=True)
class LaneScore:
    """A lane's figures over all of its answers. Intervals are of 95 %.

    Args:
        count: answers.
        checked, exact: those that a program could check, and of these the right ones.
        tokens_per_forward, tokens_per_second: of all tokens and all forwards or seconds.
        seconds: an answer, mean.
        agreement: with the first lane's texts, mean.
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
        """The share of right answers, from 0 to 1; None where none could be checked."""
        return self.exact / self.checked if self.checked else None

    @staticmethod
    def of(lane: str, results: Sequence[RaceResult]) -> LaneScore:
        """The figures of results, one or more."""
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
        """The row for JSON."""
        return asdict(self) | {"rate": self.rate}


@dataclass(eq=False)
class RaceScores:
    """Results in the order in which they came, of lanes by their titles, which differ."""

    lanes: tuple[str, ...]
    results: list[RaceResult] = field(default_factory=list)

    def add(self, results: Sequence[RaceResult]) -> None:
        """Those of one race."""
        self.results += results

    @property
    def count(self) -> int:
        """Prompts that at least one lane answered."""
        return len({result.index for result in self.results})

    @property
    def groups(self) -> list[str]:
        """In the order of their first results."""
        return list(dict.fromkeys(result.group for result in self.results))

    def rows(self, group: str | None = None) -> list[LaneScore]:
        """A row for each lane with results, of one group or of all."""
        found: list[LaneScore] = []
        for place, title in enumerate(self.lanes):
            own = [one for one in self.results if one.lane == place and group in (None, one.group)]
            if own:
                found.append(LaneScore.of(title, own))
        return found

    def document(self) -> dict[str, Any]:
        """Rows, rows by group where there are several, and single results, for JSON."""
        records = {group: [row.record() for row in rows] for group, rows in self.figures().items()}
        return {
            "rows": records.pop(ALL),
            "groups": records,
            "results": [result.record() | {"lane": self.lanes[result.lane]} for result in self.results],
        }

    def figures(self) -> dict[str, list[LaneScore]]:
        """Rows of all under ``ALL``, and by group where there are several; with many results it takes a moment."""
        groups = self.groups
        return {ALL: self.rows()} | ({group: self.rows(group) for group in groups} if len(groups) > 1 else {})

    def to_csv(self) -> str:
        """The single results, a line each under a line of names."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.document()["results"])
        return text.getvalue()


def race_document(
    lanes: Sequence[LaneSpec], scores: RaceScores, asked: Mapping[str, Any], *, finished: bool
) -> dict[str, Any]:
    """A batch for JSON: its lanes, what it was ``asked`` with, whether it came to its end, and its scores.

    ``asked``: seed, device, dtype, quantization and threads.
    """
    return {"lanes": [lane.record() for lane in lanes], **asked, "finished": finished, **scores.document()}
