"""Results of Sudoku puzzles, and the figures of a bin. Knows neither Qt nor torch.

A puzzle counts as solved if the answer is a complete grid without conflicts that keeps every given. Puzzles made here
have one solution, so a solved one is exactly right.
"""

from __future__ import annotations

import csv
import io
import random
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.state.intervals import wilson
from app.state.sudoku import board
from engine.tasks import sudoku
from engine.tasks.sudoku import BINS, Bin, GivenRange

ALL = "all"
MOST = 100_000  # puzzles of a bin


def make_puzzle(span: GivenRange, seed: int, index: int) -> sudoku.Puzzle:
    """Returns a puzzle with one solution, from a grid held out of training; equal arguments give equal puzzles."""
    return sudoku.generate(random.Random(f"{seed} {span} {index}"), span.low, span.high, held_out=True)


@dataclass(frozen=True)
class Result:
    """One puzzle, the model's answer, and its steps and time.

    Args:
        puzzle: 81 digits, 0 for a blank.
        answer: 81 characters, ``.`` for a cell without a digit.
        solution: the puzzle's only solution; empty if it has none or several.
        steps: denoising steps.
        seconds: seconds of prefill and denoising.
        contender: name of the model or setting that wrote the answer.
    """

    puzzle: str
    answer: str
    solution: str
    steps: int
    seconds: float
    contender: str = ""

    @cached_property
    def verdict(self) -> sudoku.Judgement:
        return sudoku.judge(self.puzzle, self.answer)

    @property
    def solved(self) -> bool:
        """True if the answer is a valid solution of the puzzle."""
        return self.verdict.valid

    @property
    def exact(self) -> bool:
        """True if the answer is the only solution."""
        return self.answer == self.solution

    @property
    def givens_kept(self) -> bool:
        """True if the answer keeps every given."""
        return self.verdict.givens_kept

    @cached_property
    def bin(self) -> Bin:
        return sudoku.bin_of(self.puzzle)

    @property
    def givens(self) -> int:
        return sudoku.givens(self.puzzle)

    @cached_property
    def blanks(self) -> int:
        return self.puzzle.count("0")

    @cached_property
    def cells_right(self) -> int | None:
        """The number of blanks filled with the solution's digit; None if there is no only solution."""
        if not self.solution:
            return None
        cells = zip(self.puzzle, self.answer, self.solution, strict=True)
        return sum(given == "0" and cell == right for given, cell, right in cells)

    def record(self) -> dict[str, Any]:
        """Returns the result with its derived figures, for JSON and CSV."""
        return {
            "contender": self.contender,
            "bin": self.bin,
            "givens": self.givens,
            "puzzle": self.puzzle,
            "answer": self.answer,
            "solution": self.solution,
            "valid": self.solved,
            "exact": self.exact,
            "givens_kept": self.givens_kept,
            "cells_right": self.cells_right,
            "blanks": self.blanks,
            "steps": self.steps,
            "seconds": self.seconds,
        }


def only_solution(puzzle: str) -> str:
    """Returns the puzzle's solution if it is known to have only one, else an empty text."""
    found = board.solutions(puzzle)
    return found[0] if found is not None and len(found) == 1 else ""


@dataclass(frozen=True)
class ScoreRow:
    """The figures of a contender in a bin, or in ``all`` bins. Shares are from 0 to 1.

    Args:
        solved, count: number of puzzles solved, and of puzzles run.
        low, high: the rate's 95 % interval.
        cell_accuracy: share of blanks with the right digit, in puzzles with one solution; None if there are none.
        givens_kept: share of puzzles whose answer keeps every given.
        mean_steps, median_steps: denoising steps a puzzle.
        mean_seconds: seconds a puzzle.
    """

    contender: str
    bin: str
    solved: int
    count: int
    low: float
    high: float
    cell_accuracy: float | None
    givens_kept: float
    mean_steps: float
    median_steps: float
    mean_seconds: float

    @property
    def rate(self) -> float:
        """The share of puzzles solved."""
        return self.solved / self.count

    @staticmethod
    def from_results(contender: str, name: str, results: list[Result]) -> ScoreRow:
        """Returns the row of one or more results."""
        count, solved = len(results), sum(result.solved for result in results)
        low, high = wilson(solved, count)
        known = [result for result in results if result.cells_right is not None and result.blanks]
        steps = [result.steps for result in results]
        return ScoreRow(
            contender,
            name,
            solved,
            count,
            low,
            high,
            sum(r.cells_right or 0 for r in known) / sum(r.blanks for r in known) if known else None,
            sum(result.givens_kept for result in results) / count,
            sum(steps) / count,
            statistics.median(steps),
            sum(result.seconds for result in results) / count,
        )

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return {
            "contender": self.contender,
            "bin": self.bin,
            "solved": self.solved,
            "count": self.count,
            "exact": self.rate,
            "low": self.low,
            "high": self.high,
            "cell_accuracy": self.cell_accuracy,
            "givens_kept": self.givens_kept,
            "mean_steps": self.mean_steps,
            "median_steps": self.median_steps,
            "mean_seconds": self.mean_seconds,
        }


@dataclass(eq=False)
class Scoreboard:
    """Results in their order of arrival, and rows of figures by contender and bin."""

    results: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.results.append(result)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def contenders(self) -> list[str]:
        """The contenders in the order of their first results."""
        return list(dict.fromkeys(result.contender for result in self.results))

    @property
    def bins(self) -> list[Bin]:
        """The bins with results, easy first."""
        found = {result.bin for result in self.results}
        return [name for name in BINS if name in found]

    def of(self, contender: str, name: str) -> list[Result]:
        """Returns a contender's results in a bin, or in ``all`` bins."""
        return [r for r in self.results if r.contender == contender and name in (ALL, r.bin)]

    def rows(self) -> list[ScoreRow]:
        """Returns a row for each contender and bin with results, by contender; each ends with its ``all`` row."""
        return [
            ScoreRow.from_results(contender, name, results)
            for contender in self.contenders
            for name in (*BINS, ALL)
            if (results := self.of(contender, name))
        ]

    def rows_to_show(self) -> list[ScoreRow]:
        """Returns the rows by bin, so that contenders of a bin are adjacent; ``all`` only if there are several bins."""
        names = [*self.bins, ALL] if len(self.bins) > 1 else self.bins
        rows = self.rows()
        return [row for name in names for row in rows if row.bin == name]

    def document(self) -> dict[str, Any]:
        """Returns the rows and the single results, for JSON."""
        return {
            "rows": [row.record() for row in self.rows()],
            "results": [result.record() for result in self.results],
        }

    def to_csv(self) -> str:
        """Returns the single results as CSV, with a line of column names."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(Result("0" * 81, "." * 81, "", 0, 0.0).record()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.record() for result in self.results)
        return text.getvalue()
