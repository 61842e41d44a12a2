"""Folds the replies of a decision's runs into canvases, slots, reads and answers. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.state.run.answers import label_reads
from app.state.run.canvas import CanvasState
from engine import CanvasCommitted, Event, Recording
from engine.events import SlotsRead
from engine.service import DecisionRun
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Question


@dataclass(eq=False)
class DecisionProgress:
    """One run of a decision. ``first`` is the index of its first question among all."""

    request: DecisionRun
    first: int = 0
    trace: Recording | None = None
    canvas: CanvasState = field(default_factory=CanvasState)
    reads: list[tuple[LabelRead, ...]] = field(default_factory=list)  # a tuple for each read, with an entry a question
    is_over: bool = False
    problem: str = ""

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that this run asks."""
        return self.request.decision.questions

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The canvas slots of its answers; empty if there is no trace."""
        return () if self.trace is None else self.trace.header.slots

    @property
    def was_stopped(self) -> bool:
        """True if the run was cancelled before its last read."""
        finished = self.canvas.finished
        return self.is_over and (finished is None or finished.reason == "cancelled")

    def begin(self, trace: Recording) -> None:
        """Begins to fold the events of a recording."""
        self.trace = trace

    def fold(self, events: Iterable[Event]) -> None:
        """Applies the run's next events. Commits are left out, as they would cut the canvas at an end token."""
        for event in events:
            if not isinstance(event, CanvasCommitted):
                self.canvas.fold(event)
            if isinstance(event, SlotsRead):
                self.reads.append(label_reads(event))

    def end(self, problem: str) -> None:
        """Ends the run, with the problem if it failed."""
        self.is_over, self.problem = True, problem


@dataclass(eq=False)
class DecisionReading:
    """All runs of one decision."""

    runs: list[DecisionProgress]

    @staticmethod
    def from_requests(requests: Iterable[DecisionRun]) -> DecisionReading:
        """Returns the state before the first reply."""
        runs: list[DecisionProgress] = []
        first = 0
        for request in requests:
            runs.append(DecisionProgress(request, first))
            first += len(runs[-1].questions)
        return DecisionReading(runs)

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs)

    @property
    def problem(self) -> str:
        """The problem of the first run that failed; empty if none did."""
        return next((run.problem for run in self.runs if run.problem), "")

    @property
    def was_stopped(self) -> bool:
        """True if a run was cancelled before its end."""
        return any(run.was_stopped and not run.problem for run in self.runs)

    @property
    def reads(self) -> list[tuple[LabelRead, ...]]:
        """The reads of each question, in their order."""
        places = ((run, place) for run in self.runs for place in range(len(run.questions)))
        return [tuple(read[place] for read in run.reads) for run, place in places]

    @property
    def answers(self) -> Sequence[TypedAnswer | None]:
        """The answer to each question, in their order; None before its first read."""
        questions = (question for run in self.runs for question in run.questions)
        return [answer_of(asked, own) if own else None for asked, own in zip(questions, self.reads, strict=True)]

    def run_of(self, question: int) -> DecisionProgress | None:
        """Returns the run that asks the question at an index among all; None if there is none."""
        return next((run for run in self.runs if run.first <= question < run.first + len(run.questions)), None)
