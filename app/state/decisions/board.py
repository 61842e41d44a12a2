"""A table whose rows are decided: the outcome of each row, and the order of the rows. Knows neither Qt nor torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.state.run.answers import entropy_of
from engine import SafelightError
from engine.tasks.decisions.answers import DOUBT, LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.calibration import LabelledRead
from engine.tasks.decisions.questions import Question
from engine.tasks.decisions.results import RowResult
from engine.tasks.decisions.table import CsvTable, TableState, label_column, labels_of

RowFilter = Literal["all", "doubt", "wrong"]
LITTLE_MASS = 0.5  # an answer with less label mass is in doubt, too
NONE = -1  # stands in place of an option
NOT_DECIDED = "not decided"
Order: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class RowOutcome:
    """The outcome of the row at an index: the reads of each question, or the problem if there are none."""

    row: int
    reads: tuple[tuple[LabelRead, ...], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class SortKey:
    """A key to sort rows by: a column of the table, or a question's answers or their confidence."""

    kind: Literal["cell", "answer", "confidence"]
    place: int
    is_falling: bool = False


class RowBoard:
    """R rows and Q questions. Labels that are not an option are reported in ``label_problems`` and do not count.

    Args:
        states: the state of each row.
    """

    def __init__(
        self, table: CsvTable, states: Sequence[TableState], questions: Sequence[Question], temperature: float = 1.0
    ) -> None:
        self.table, self.states, self.questions = table, states, tuple(questions)
        self.temperature = temperature
        self.outcomes: list[RowOutcome | None] = [None] * len(table.rows)
        self.done = 0
        self.failed = 0
        self.label_problems: list[str] = []
        self.labels = np.full((len(table.rows), len(self.questions)), NONE, dtype=np.int16)
        self.labelled: list[int] = []  # questions with a column of right answers
        shape = self.labels.shape
        self.best = np.full(shape, NONE, dtype=np.int16)
        self.confidence = np.full(shape, np.nan, dtype=np.float32)
        self.in_doubt = np.zeros(shape, dtype=np.bool_)
        for place, question in enumerate(self.questions):
            self._read_labels(place, question)

    def _read_labels(self, place: int, question: Question) -> None:
        if label_column(self.table, question) is None:
            return
        try:
            found = labels_of(self.table, question)
        except SafelightError as error:
            self.label_problems.append(str(error))
            return
        self.labels[:, place] = [NONE if label is None else label for label in found]
        if (self.labels[:, place] != NONE).any():
            self.labelled.append(place)

    def __len__(self) -> int:
        return len(self.outcomes)

    def take(self, outcomes: Iterable[RowOutcome]) -> None:
        """Adds outcomes of rows."""
        for outcome in outcomes:
            if self.outcomes[outcome.row] is None:
                self.done += 1
                self.failed += bool(outcome.problem)
            self.outcomes[outcome.row] = outcome
            self._measure(outcome)

    def _measure(self, outcome: RowOutcome) -> None:
        for place, answer in enumerate(self.answers(outcome.row)):
            self.best[outcome.row, place] = answer.best
            self.confidence[outcome.row, place] = answer.confidence
            self.in_doubt[outcome.row, place] = is_in_doubt(answer)

    def at_temperature(self, temperature: float) -> RowBoard:
        """Returns a board of equal answers with probabilities at another temperature."""
        made = RowBoard(self.table, self.states, self.questions, temperature)
        made.take(outcome for outcome in list(self.outcomes) if outcome is not None)
        return made

    def answers(self, row: int) -> tuple[TypedAnswer, ...]:
        """Returns the answers to a row's questions; empty if there are none."""
        outcome = self.outcomes[row]
        if outcome is None or not outcome.reads:
            return ()
        return tuple(
            answer_of(question, reads, self.temperature)
            for question, reads in zip(self.questions, outcome.reads, strict=True)
        )

    def is_wrong(self, row: int, question: int) -> bool:
        """True if the answer differs from the label; False if either is missing."""
        label, best = int(self.labels[row, question]), int(self.best[row, question])
        return NONE not in (label, best) and label != best

    def is_right(self, row: int, question: int) -> bool:
        """True if the answer equals the label."""
        return NONE != int(self.best[row, question]) == int(self.labels[row, question])

    def accuracy(self, question: int) -> tuple[int, int]:
        """Returns the number of right answers, and of answers to rows with a label."""
        known = (self.labels[:, question] != NONE) & (self.best[:, question] != NONE)
        return int((known & (self.labels[:, question] == self.best[:, question])).sum()), int(known.sum())

    def examples(self, questions: Iterable[int] | None = None) -> list[LabelledRead]:
        """Returns the reads with a known label, row by row, of these questions or of all that have labels."""
        chosen = self.labelled if questions is None else list(questions)
        return [
            LabelledRead(outcome.reads[place], int(self.labels[row, place]))
            for row, outcome in enumerate(list(self.outcomes))
            if outcome is not None and outcome.reads
            for place in chosen
            if self.labels[row, place] != NONE
        ]

    def results(self) -> Iterator[RowResult]:
        """Yields the result of each row, for a file."""
        for row, outcome in enumerate(self.outcomes):
            if outcome is None:
                yield NOT_DECIDED
            else:
                yield outcome.problem or self.answers(row)

    @property
    def is_repeated(self) -> bool:
        """True if any answer was read more than once."""
        return any(len(reads) > 1 for outcome in self.outcomes if outcome is not None for reads in outcome.reads)

    def order(self, key: SortKey | None, shown: RowFilter = "all") -> Order:
        """Returns the rows to show, in their order. Rows without a value to sort by come last."""
        rows = np.arange(len(self), dtype=np.int64)
        if shown == "doubt":
            rows = rows[self.in_doubt.any(axis=1)]
        elif shown == "wrong":
            wrong = (self.labels != NONE) & (self.best != NONE) & (self.labels != self.best)
            rows = rows[wrong.any(axis=1)]
        if key is None:
            return rows
        if key.kind == "cell":
            cells = [self.table.rows[row].cells[key.place] for row in rows.tolist()]
            return rows[_text_order(cells, is_falling=key.is_falling)]
        values = (self.best if key.kind == "answer" else self.confidence)[rows, key.place].astype(np.float64)
        values[values == NONE] = np.nan
        return rows[np.argsort(-values if key.is_falling else values, kind="stable")]  # NaN last


def is_in_doubt(answer: TypedAnswer) -> bool:
    """True if an answer is in doubt: its options are close, or have little probability together."""
    return entropy_of(answer) > DOUBT or answer.label_mass < LITTLE_MASS


def _text_order(cells: Sequence[str], *, is_falling: bool) -> Order:
    """Returns the order of cells: numbers by their value, then texts by their letters."""
    keys = [_cell_key(cell) for cell in cells]
    return np.array(sorted(range(len(cells)), key=keys.__getitem__, reverse=is_falling), dtype=np.int64)


def _cell_key(cell: str) -> tuple[int, float, str]:
    try:
        value = float(cell)
    except ValueError:
        return (1, 0.0, cell.casefold())
    return (0, value, "") if math.isfinite(value) else (1, 0.0, cell.casefold())
