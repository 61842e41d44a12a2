"""Folds the replies of a decision's runs into canvases, slots, reads and answers. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.state.run.answers import label_reads
from app.state.run.canvas import BlockState, CanvasState
from engine import CanvasCommitted, Event, Recording
from engine.events import SlotsRead
from engine.service import RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Question


@dataclass(eq=False)
class DecisionRun:
    """One run of a decision. ``first`` is the index of its first question among all."""

    request: RunRequest
    first: int = 0
    trace: Recording | None = None
    canvas: CanvasState = field(default_factory=CanvasState)
    reads: list[tuple[LabelRead, ...]] = field(default_factory=list)  # a tuple for each read, with an entry a question
    is_over: bool = False
    problem: str = ""
    details: str = ""

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that this run asks."""
        assert self.request.decision is not None
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

    def fold(self, event: Event) -> None:
        """Applies the run's next event. Commits are left out, as they would cut the canvas at an end token."""
        if not isinstance(event, CanvasCommitted):
            self.canvas.fold(event)
        if isinstance(event, SlotsRead):
            self.reads.append(label_reads(event))

    def take(self, reply: RunStarted | RunAdvanced | RunEnded) -> None:
        """Applies the run's next reply."""
        match reply:
            case RunStarted(_, trace):
                self.trace = trace
            case RunAdvanced(_, event):
                self.fold(event)
            case RunEnded(_, message, details):
                self.is_over, self.problem, self.details = True, message, details

    def reads_of(self, question: int) -> tuple[LabelRead, ...]:
        """Returns all reads of the question at an index of this run."""
        return tuple(one[question] for one in self.reads)

    def answer(self, question: int, temperature: float) -> TypedAnswer | None:
        """Returns the answer to the question at an index of this run; None before the first read."""
        reads = self.reads_of(question)
        return answer_of(self.questions[question], reads, temperature) if reads else None


@dataclass(frozen=True)
class CanvasPlace:
    """The index of a run and of one of its reads, which has a canvas to show."""

    run: int
    read: int


@dataclass(eq=False)
class DecisionReading:
    """All runs of one decision."""

    runs: list[DecisionRun]

    @staticmethod
    def from_requests(requests: Iterable[RunRequest]) -> DecisionReading:
        """Returns the state before the first reply."""
        runs: list[DecisionRun] = []
        first = 0
        for request in requests:
            runs.append(DecisionRun(request, first))
            first += len(runs[-1].questions)
        return DecisionReading(runs)

    def take(self, reply: ServiceReply) -> DecisionRun | None:
        """Applies a reply and returns its run; None if it belongs to another run."""
        if isinstance(reply, RunStarted | RunAdvanced | RunEnded):
            for run in self.runs:
                if run.request.run_id == reply.run_id:
                    run.take(reply)
                    return run
        return None

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs)

    @property
    def problem(self) -> tuple[str, str]:
        """The problem and the details of the first run that failed; empty if none did."""
        return next(((run.problem, run.details) for run in self.runs if run.problem), ("", ""))

    @property
    def was_stopped(self) -> bool:
        """True if a run was cancelled before its end."""
        return any(run.was_stopped and not run.problem for run in self.runs)

    @property
    def count(self) -> int:
        """The number of questions in all runs."""
        return sum(len(run.questions) for run in self.runs)

    def run_of(self, question: int) -> tuple[int, int]:
        """Returns the index of the run that asks a question, and the question's index in it. Raises IndexError."""
        for place, run in enumerate(self.runs):
            if question < run.first + len(run.questions):
                return place, question - run.first
        raise IndexError(f"there is no question {question}")

    def answer(self, question: int, temperature: float) -> TypedAnswer | None:
        """Returns the answer to the question at an index among all; None before its first read."""
        run, place = self.run_of(question)
        return self.runs[run].answer(place, temperature)

    def answers(self, temperature: float) -> Sequence[TypedAnswer | None]:
        """Returns the answers to all questions, in their order."""
        return [self.answer(question, temperature) for question in range(self.count)]

    def reads_of(self, question: int) -> tuple[LabelRead, ...]:
        """Returns all reads of the question at an index among all."""
        run, place = self.run_of(question)
        return self.runs[run].reads_of(place)

    @property
    def canvases(self) -> list[CanvasPlace]:
        """The canvases so far, in order."""
        return [
            CanvasPlace(place, read) for place, run in enumerate(self.runs) for read in range(len(run.canvas.blocks))
        ]

    def block(self, place: CanvasPlace) -> BlockState:
        """Returns the state of a canvas. Raises IndexError if there is no such canvas."""
        return self.runs[place.run].canvas.blocks[place.read]
