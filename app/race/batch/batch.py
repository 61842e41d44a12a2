"""Runs a batch, race after race. Prompts are made and answers checked in background threads. Has no widgets."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.batch.runner import Ahead
from app.bridge.background import Background
from app.context import AppContext
from app.race.racer import Racer
from app.state.race.lanes import LaneSpec, require_different
from app.state.race.prompts import BatchRequest, RacePrompt
from app.state.race.running import RaceRun
from app.state.race.scores import RaceResult, RaceScores, race_document, results_of
from app.system.i18n import tr

MOST_UNCHECKED = 4  # races; a further one starts only after these are checked, which bounds memory

Raced = tuple[RaceRun, int, RacePrompt]
"""A finished race, the index of its prompt, and the prompt."""


class RaceBatch(QObject):
    """Runs one batch at a time, with its own ``Racer``. Results stay until the next batch begins.

    ``answered`` emits the results of some prompts and ``measured`` the rows by group. ``ended`` emits a sentence that
    says what went wrong, empty if nothing did: the batch finished or was stopped.
    """

    changed = Signal()  # the batch began, progressed or ended
    answered = Signal(object)  # a list[list[RaceResult]], an inner list for each prompt
    measured = Signal(object)  # a dict[str, list[LaneScore]], see ``RaceScores.figures``
    ended = Signal(str)

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.racer = Racer(context, self)
        self.request: BatchRequest | None = None
        self.specs: tuple[LaneSpec, ...] = ()
        self.scores = RaceScores(())
        self.raced = 0  # prompts that are answered
        self.is_on = False
        self.is_finished = False  # all prompts were answered
        self.was_stopped = False  # the user ended it early
        self._asked: dict[str, object] = {}  # the settings of the batch, for the JSON file
        self._context = context
        self._prompts = Ahead[RacePrompt](self, self._go_on, self._end)
        self._racing_on: RacePrompt | None = None
        self._unchecked: list[Raced] = []
        self._why = ""  # why the batch ends early
        self._is_ending = False
        self._checking = Background(self, self._take_results, self._end)
        self._measuring = Background(self, self.measured, self._end)
        self.racer.changed.connect(self.changed)
        self.racer.ended.connect(self._raced)

    def begin(self, request: BatchRequest, lanes: Sequence[LaneSpec]) -> None:
        """Starts a batch; only while none is running.

        Raises:
            SafelightError: Two lanes are the same.
        """
        require_different(lanes)
        self.request, self.specs = request, tuple(lanes)
        self.scores = RaceScores(tuple(lane.title for lane in lanes))
        usual = {"device": "auto", "dtype": "auto", "quantization": "auto"}
        self._asked = {"seed": request.seed, **usual, "threads": self._context.preferences.threads}
        self.raced, self._unchecked = 0, []
        self.is_on, self._is_ending, self._why = True, False, ""
        self.is_finished = self.was_stopped = False
        self._measuring.drop()
        self._prompts.begin(request.prompts())
        self.changed.emit()
        self._context.busy_changed.emit()

    def stop(self) -> None:
        """Ends the batch: stops the running race within one denoising step and starts no further one."""
        if self.is_on:
            self.was_stopped = True
            self._end()

    def to_json(self) -> str:
        """Returns the batch as JSON, as ``safelight race --json`` prints it; slow if there are many results."""
        document = race_document(self.specs, self.scores, self._asked, finished=self.is_finished)
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"

    @Slot(str)
    def _end(self, why: str = "") -> None:
        """Starts no further race. The batch ends once the running race has ended and all answers are checked."""
        self._is_ending, self._why = True, self._why or why
        self._prompts.drop()
        self.racer.stop()
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self.is_on and self._is_ending and not (self.racer.is_busy or self._unchecked or self._checking.is_busy):
            self.is_on, self.is_finished = False, not (self._why or self.was_stopped)
            self.ended.emit(self._why)
            self.changed.emit()
            self._context.busy_changed.emit()

    @Slot()
    def _go_on(self) -> None:
        """Starts the next race if its prompt is made, no race is running and few enough are unchecked."""
        if not self._prompts.is_ready or self.racer.is_busy or len(self._unchecked) >= MOST_UNCHECKED:
            return
        prompt = self._racing_on = self._prompts.take()
        if prompt is None:
            self._end()
            return
        assert self.request is not None
        self.racer.race(prompt.text, self.specs, self.request.seed, prompt.pictures, keep=False)

    @Slot(object)
    def _raced(self, run: RaceRun) -> None:
        problem = _problem(run)
        if problem or run.was_stopped:
            self.was_stopped = not problem
            self._end(problem)
            return
        assert self._racing_on is not None
        self._unchecked.append((run, self.raced, self._racing_on))
        self.raced += 1
        self._check()
        self._go_on()

    def _check(self) -> None:
        if self._unchecked and not self._checking.is_busy:
            races, self._unchecked = self._unchecked, []
            self._checking.ask(functools.partial(_results, races))

    @Slot(object)
    def _take_results(self, found: list[list[RaceResult]]) -> None:
        for results in found:
            self.scores.add(results)
        self.answered.emit(found)
        self._measuring.ask(RaceScores(self.scores.lanes, list(self.scores.results)).figures)
        self._check()
        self._go_on()
        self._finish_if_over()

    @property
    def is_measuring(self) -> bool:
        """True while figures are being computed."""
        return self._measuring.is_busy


def _results(races: list[Raced]) -> list[list[RaceResult]]:
    return [results_of(*raced) for raced in races]


def _problem(run: RaceRun) -> str:
    """Returns why a race failed, as a sentence; empty if it did not."""
    lanes = (
        tr("Lane {lane}: {problem}", lane=place, problem=tr(lane.problem))
        for place, lane in enumerate(run.lanes, start=1)
        if lane.problem
    )
    return tr(run.problem) if run.problem else next(lanes, "")
