"""A race: one prompt answered in two to four ways beside each other. Knows neither Qt nor torch.

A lane is a model with the settings of a run. Lanes take turns, a step each, and no two passes are performed at once or
joined: what a lane's events say of its time is what it would have taken alone. Before its first race a way of decoding
takes two steps that nobody sees, since what is set up then would count as its time. A lane of the loaded model runs on
that; other models are loaded beside it, and stay for the next race.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from engine.errors import SafelightError, Sentence
from engine.events import PrefillFinished
from engine.service.backend import Backend, RunSteps, performed, run_alone
from engine.service.beside import Runner, load_beside
from engine.service.failures import explained
from engine.service.replies import (
    LanePassed,
    LoadedModel,
    PassWanted,
    RaceEnded,
    RaceLoading,
    RunAdvanced,
    RunEnded,
    ServiceReply,
)
from engine.service.requests import Lane, LoadRequest, RaceRequest, RunRequest, is_remote
from engine.trace.header import new_id

POLL_SECONDS = 0.02  # between two looks whether a client has room again


@dataclass(eq=False)
class _Open:
    """A lane that goes on."""

    runner: Runner
    request: RunRequest
    items: RunSteps
    forwards: int = 0  # behind the prompt
    has_read: bool = False  # the prompt


class Racing:
    """Performs races, one at a time, in one thread.

    Args:
        backend: of the loaded model; others are made by its ``sibling``.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._beside: dict[tuple[str, str], Runner] = {}
        self._warm: set[object] = set()  # models and decoders that have run

    def forget(self) -> None:
        """Let go of the models beside the loaded one."""
        for runner in self._beside.values():
            runner.backend.unload()
        self._beside.clear()
        self._warm.clear()

    def run(
        self,
        request: RaceRequest,
        present: LoadedModel | None,
        put: Callable[[ServiceReply], object],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run a race to its end; the replies end with ``RaceEnded``.

        Args:
            present: the model that is loaded.
            is_full: while it is, nothing goes on.
        """
        message = details = ""
        try:
            self._run(request, present, put, is_full)
        except Exception as error:  # whatever the libraries raise
            message, details = explained(error)
        put(RaceEnded(request.race_id, message, details))

    def _run(
        self,
        request: RaceRequest,
        present: LoadedModel | None,
        put: Callable[[ServiceReply], object],
        is_full: Callable[[], bool],
    ) -> None:
        runners = self._runners(request, present, put)
        if request.cancel.is_set():
            return
        starters: list[tuple[Runner, RunRequest]] = []
        for lane, runner in zip(request.lanes, runners, strict=True):
            run = _run_of(request, lane, runner.model)
            if request.pictures and not runner.model.capabilities.images:
                put(RunEnded(run.run_id, Sentence("{model} reads text alone: it cannot race here.", model=lane.title)))
                continue
            self._warm_up(lane, runner, run)
            starters.append((runner, run))
        with ExitStack() as ending:
            lanes: list[_Open] = []
            for runner, run in starters:
                beside = [other.request for other in lanes if other.runner is runner]
                if not runner.backend.admits(run, beside):
                    raise SafelightError(
                        Sentence(
                            "There is no room for {count} runs of {model} at once. Race fewer lanes, or ask for fewer "
                            "tokens.",
                            count=len(beside) + 1,
                            model=runner.model.title,
                        )
                    )
                steps = runner.backend.begin(run)
                ending.callback(steps.close)
                begun = _Open(runner, run, performed(runner.backend, steps))
                if _take_turn(begun, put):  # reads the prompt
                    lanes.append(begun)
            while lanes:
                while is_full() and not request.cancel.wait(POLL_SECONDS):
                    pass
                lanes = [lane for lane in lanes if _take_turn(lane, put)]

    def _warm_up(self, lane: Lane, runner: Runner, run: RunRequest) -> None:
        """Take two steps of a block, unless this model has decoded so before. What fails there will fail again."""
        config = run.config
        way = lane.key, config.decoder, config.thought_decoder, config.answer_decoder
        if way in self._warm or run.cancel.is_set():
            return
        short = config.replace(max_new_tokens=1, max_denoising_steps=2)
        first = dataclasses.replace(run, config=short, keep=False, run_id=new_id())
        for _ in run_alone(runner.backend, first):
            pass
        self._warm.add(way)

    # ---------------------------------------------------------------- models

    def _runners(
        self, request: RaceRequest, present: LoadedModel | None, put: Callable[[ServiceReply], object]
    ) -> list[Runner]:
        """What runs each lane, the same object for lanes of one model; fewer where the race is cancelled.

        Models that are missing are loaded, those that no lane asks for let go.

        Raises:
            SafelightError: a model cannot be loaded, or another machine runs it.
        """
        known = dict(self._beside)
        if present is not None:
            known[present.path_or_id, present.adapter or ""] = Runner(self._backend, present)
        wanted = {lane.key: lane for lane in request.lanes}
        for lane in request.lanes:
            if is_remote(lane.model):
                raise SafelightError(
                    Sentence("{model} is run by another machine; a race is run on this one.", model=lane.title)
                )
        for key in [key for key in self._beside if key not in wanted]:
            self._beside.pop(key).backend.unload()
        for key, lane in wanted.items():
            if key not in known:
                runner = self._load(lane, request, put)
                if runner is None:
                    return []
                known[key] = self._beside[key] = runner
        return [known[lane.key] for lane in request.lanes]

    def _load(self, lane: Lane, request: RaceRequest, put: Callable[[ServiceReply], object]) -> Runner | None:
        """Load a lane's model beside the others; None where the race was cancelled meanwhile.

        Raises:
            SafelightError: it cannot be loaded.
        """
        load = LoadRequest(lane.model, lane.title, request.threads, lane.adapter or None, cancel=request.cancel)
        return load_beside(self._backend, load, lambda share: put(RaceLoading(request.race_id, lane.title, share)))


def _run_of(request: RaceRequest, lane: Lane, model: LoadedModel) -> RunRequest:
    """A lane's run, with its model's own settings but for the lane's."""
    return RunRequest(
        "chat",
        request.messages,
        model.defaults.replace(**lane.changes),
        request.seed,
        think=request.think,
        keep=request.keep,
        pictures=request.pictures,
        run_id=lane.run_id,
        cancel=request.cancel,
    )


def _take_turn(lane: _Open, put: Callable[[ServiceReply], object]) -> bool:
    """Take a lane to the first of its events behind a pass; whether it goes on from there.

    The clock of a run stands still while its event is looked at, so that the other lanes' turns are not counted.
    """
    has_passed = False
    for item in lane.items:
        if isinstance(item, PassWanted):
            has_passed = True
            lane.forwards += lane.has_read
            continue
        put(item)
        if isinstance(item, RunAdvanced):
            lane.has_read = lane.has_read or isinstance(item.event, PrefillFinished)
            if has_passed:
                put(LanePassed(lane.request.run_id, lane.forwards))
                return True
    return False
