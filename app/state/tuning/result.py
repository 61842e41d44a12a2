"""The result of a tuning as a file: its rows, and the setting it has chosen. No Qt, no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.state.tuning.candidates import MOST_CANDIDATES, stored_candidate
from app.state.tuning.plan import MOST_VARIANTS
from app.state.tuning.scores import TuningRow, choice, frontier
from engine import SafelightError
from engine.files import read_json, write_json

FILE = "result.json"
FOLDER = "tuning"  # in the user's data folder
VERSION = 2  # 1: without variations
MOST_BYTES = 2**20
MOST_FOLDERS = 1_000  # that are looked at for the latest result
LONGEST_TITLE = 200


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


def read_result(path: Path) -> TuningResult:
    """Reads the result of a tuning.

    Raises:
        SafelightError: it is missing, too large, damaged, or a newer version's.
    """
    raw = read_json(path, most=MOST_BYTES)
    try:
        if raw["version"] != VERSION:
            raise ValueError
        rows = tuple(_row(one) for one in raw["rows"][: MOST_CANDIDATES + MOST_VARIANTS])
        found = TuningResult(
            str(raw["model"])[:LONGEST_TITLE],
            str(raw["task"])[:LONGEST_TITLE],
            int(raw["seed"]),
            _real(raw["margin"], 0, 1),
            rows,
            raw["finished"] is True,
            str(raw["preset"])[:LONGEST_TITLE],
        )
    except (KeyError, TypeError, ValueError, AttributeError, SafelightError):
        raise SafelightError(f"{path} is not the result of a tuning; run safelight tune again") from None
    if not rows:
        raise SafelightError(f"{path} has no rows; run safelight tune again")
    return found


def latest_result(data: Path) -> Path | None:
    """Returns the latest result in a data folder; None if there is none."""
    found: list[tuple[float, Path]] = []
    try:
        for folder in [*(data / FOLDER).iterdir()][:MOST_FOLDERS]:
            path = folder / FILE
            if path.is_file():
                found.append((path.stat().st_mtime, path))
    except OSError:
        pass
    return max(found)[1] if found else None


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


def _row(raw: Any) -> TuningRow:
    """Reads a row; what follows from others is computed anew.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, SafelightError: it is not one.
    """
    count = int(_real(raw["count"], 1, 1e9))
    low, high = raw["ratio_interval"]
    exact, better, worse = (int(_real(raw[name], 0, count)) for name in ("exact", "better", "worse"))
    if better > exact or worse > count - exact:
        raise ValueError
    return TuningRow(
        stored_candidate(raw["rule"], raw["threshold"], raw["variation"]),
        count,
        exact,
        _real(raw["steps"], 0, 1e6),
        better,
        worse,
        _real(raw["ratio"], 0, 1e6),
        (_real(low, 0, 1e6), _real(high, 0, 1e6)),
    )


def _real(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    if not low <= value <= high:
        raise ValueError
    return float(value)
