"""The result of a tuning as a file: its rows, and the setting it has chosen. No Qt, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.state.tuning.scores import TuningRow, choice, frontier
from engine.files import write_json

FILE = "result.json"
FOLDER = "tuning"  # in the user's data folder
VERSION = 2  # 1: without variations


@dataclass(frozen=True)
class TuningResult:
    """The rows of a tuning, the reference first.

    Args:
        model: its name, with its adapter's.
        margin: how much lower than the reference's the exactness may be, as a share.
        is_finished: False if it was stopped early.
        preset: the name of the preset that was made of the choice; empty if none was.
    """

    model: str
    task: str
    seed: int
    margin: float
    rows: tuple[TuningRow, ...]
    is_finished: bool = True
    preset: str = ""

    @property
    def usual(self) -> TuningRow:
        """The reference's row."""
        return self.rows[0]

    @property
    def varied(self) -> set[str]:
        """The names of the settings that differ between the rows, but for the rule."""
        return {name for row in self.rows for name in row.candidate.numbers}

    @property
    def frontier(self) -> list[TuningRow]:
        return frontier(self.rows)

    @property
    def chosen(self) -> TuningRow:
        """The row of the chosen setting; the reference's if no rule is faster without being lower, or none is yet."""
        return choice(self.rows, self.margin) if self.is_finished else self.usual

    def document(self) -> dict[str, Any]:
        """Returns the result for JSON."""
        best = self.frontier
        return {
            "version": VERSION,
            "model": self.model,
            "task": self.task,
            "seed": self.seed,
            "margin": self.margin,
            "finished": self.is_finished,
            "preset": self.preset,
            "chosen": self.chosen.candidate.title if self.is_finished else None,
            "rows": [_record(row, self.margin, is_best=row in best) for row in self.rows],
        }

    def write(self, path: Path) -> None:
        """Writes the result as JSON, whole or not at all.

        Raises:
            SafelightError: it cannot be written.
        """
        write_json(path, self.document())


def _record(row: TuningRow, margin: float, *, is_best: bool) -> dict[str, Any]:
    return {
        "title": row.candidate.title,
        "rule": row.candidate.acceptance,
        "setting": row.candidate.setting,
        "threshold": row.candidate.threshold,
        "variation": dict(row.candidate.variation),
        "count": row.count,
        "exact": row.exact,
        "rate": row.rate,
        "interval": row.interval,
        "steps": row.steps,
        "ratio": row.ratio,
        "ratio_interval": row.ratio_interval,
        "better": row.better,
        "worse": row.worse,
        "difference": row.difference,
        "difference_interval": row.difference_interval,
        "not_lower": row.is_not_lower(margin),
        "frontier": is_best,
    }
