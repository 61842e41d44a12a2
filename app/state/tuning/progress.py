"""The file that holds a tuning's runs, so that a stopped one goes on. JSON lines; the first says what was run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.state.tuning.candidates import stored_candidate
from app.state.tuning.scores import TunedRun, TuningScores
from engine import SafelightError
from engine.files import explained, parse_json, read_bytes

FILE = "runs.jsonl"
VERSION = 2  # 1: without variations
MOST_BYTES = 2**27  # some three million runs
MOST_STEPS = 10_000_000  # of a run


@dataclass(frozen=True)
class TuningHeader:
    """Describes the runs of a file; a tuning goes on only where all of this is the same.

    Args:
        model, fingerprint, adapter, precision: see ``engine.trace.ModelIdentity``; the adapter by its fingerprint.
        digest: of a user's own prompts.
        settings: the model's own sampler settings, as text.
    """

    model: str
    fingerprint: str
    adapter: str
    precision: str
    task: str
    digest: str
    seed: int
    settings: str
    version: int = VERSION

    def differs(self, stored: Any) -> str:
        """Returns the name of the first field that a stored header has otherwise; empty if it is the same."""
        own = asdict(self)
        kept = stored if isinstance(stored, dict) else {}
        return next((name for name, value in own.items() if kept.get(name) != value), "")


@dataclass(frozen=True)
class RunLog:
    """Appends runs to an open file; each is there for the next start as soon as it is added."""

    file: BinaryIO
    path: Path

    def add(self, run: TunedRun) -> None:
        """Appends a run.

        Raises:
            SafelightError: the disk is full, or the file cannot be written.
        """
        candidate = run.candidate
        others = dict(candidate.variation)
        self._write([candidate.acceptance, candidate.threshold, others, run.index, run.is_exact, run.steps])

    def _write(self, value: object) -> None:
        try:
            self.file.write(json.dumps(value).encode() + b"\n")
        except OSError as error:
            raise explained(error, self.path) from None


@contextmanager
def opened_log(path: Path, header: TuningHeader, scores: TuningScores) -> Iterator[RunLog]:
    """Opens a tuning's file, new or old, and adds the runs in it to ``scores``.

    A last line that a crash cut off is dropped.

    Raises:
        SafelightError: it holds something else, or a tuning of another model, task or seed; or it cannot be used.
    """
    try:
        whole = read_bytes(path, MOST_BYTES) if path.exists() else b""
        lines = whole[: whole.rfind(b"\n") + 1]
        with open(path, "ab", buffering=0) as file:
            os.truncate(path, len(lines))
            log = RunLog(file, path)
            if lines:
                _read(lines.decode("utf-8", "replace").splitlines(), path, header, scores)
            else:
                log._write(asdict(header))
            yield log
    except OSError as error:
        raise explained(error, path) from None


def _read(lines: list[str], path: Path, header: TuningHeader, scores: TuningScores) -> None:
    first, *rest = lines
    name = header.differs(_json(first, f"{path}, line 1"))
    if name:
        raise SafelightError(f"{path} was begun with another {name}; choose another folder with --out, or delete it")
    for number, line in enumerate(rest, 2):
        run = _run(_json(line, f"{path}, line {number}"))
        if run is None:
            raise SafelightError(f"{path}, line {number} is damaged; delete the line, or the file to begin again")
        scores.add(run)


def _json(line: str, where: str) -> Any:
    try:
        return parse_json(line, where)
    except SafelightError:
        raise SafelightError(f"{where} is damaged; delete the line, or the file to begin again") from None


def _run(raw: Any) -> TunedRun | None:
    match raw:
        case [str(acceptance), float() | int() as threshold, dict(others), int(index), bool(exact), int(steps)]:
            if index >= 0 and 0 <= steps <= MOST_STEPS:
                with suppress(SafelightError):
                    return TunedRun(stored_candidate(acceptance, threshold, others), index, exact, steps)
    return None
