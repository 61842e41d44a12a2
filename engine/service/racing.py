"""A race: one prompt answered by two to four lanes at the same time. Knows neither Qt nor torch.

A lane is a model with the settings of a run. Lanes take turns, a step each. Passes are never joined or performed at the
same time, so that a lane's times are those of the lane alone. Before its first race a model with a decoder takes two
steps whose events are dropped, since their setup would count as its time. A lane of the loaded model runs on that.
Other models are loaded next to it, and stay for the next race.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from engine.errors import SafelightError, Sentence
from engine.events import PrefillFinished
from engine.service.backend import Backend, Runner, RunSteps, load_sibling, performed, run_alone
from engine.service.replies import (
    LanePassed,
    LoadedModel,
    PassWanted,
    RaceEnded,
    RaceLoading,
    RunAdvanced,
    RunEnded,
    ServiceReply,
    explained,
)
from engine.service.requests import ChatRun, Lane, LoadRequest, RaceRequest, RunRequest, is_remote
from engine.trace.header import new_id

POLL_SECONDS = 0.02  # between two checks whether a client has room again


@dataclass(eq=False)
class _Open:
    """A lane that is still running."""

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
        self._siblings: dict[tuple[str, str], Runner] = {}
        self._warm: set[object] = set()  # models and decoders that have run

    def forget(self) -> None:
        """Unloads the models next to the loaded one."""
        for runner in self._siblings.values():
            runner.backend.unload()
        self._siblings.clear()
        self._warm.clear()

    def run(
        self,
        request: RaceRequest,
        present: LoadedModel | None,
        put: Callable[[ServiceReply], object],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Runs a race to its end; the replies end with ``RaceEnded``.

        Args:
            present: the loaded model.
            is_full: while it returns True, the lanes wait.
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
        starters: list[tuple[Runner, ChatRun]] = []
        for lane, runner in zip(request.lanes, runners, strict=True):
            run = ChatRun(
                runner.model.defaults.replace(**lane.changes),
                request.seed,
                request.messages,
                think=request.think,
                keep=request.keep,
                pictures=request.pictures,
                run_id=lane.run_id,
                cancel=request.cancel,
            )
            if request.pictures and not runner.model.capabilities.images:
                put(
                    RunEnded(
                        run.run_id,
                        Sentence("{model} only reads text: it cannot answer about a picture.", model=lane.title),
                    )
                )
                continue
            self._warm_up(lane, runner, run)
            starters.append((runner, run))
        with ExitStack() as ending:
            lanes: list[_Open] = []
            for runner, run in starters:
                others = [other.request for other in lanes if other.runner is runner]
                if not runner.backend.admits(run, others):
                    raise SafelightError(
                        Sentence(
                            "There is no room for {count} runs of {model} at once. Remove lanes, or choose a "
                            "shorter answer.",
                            count=len(others) + 1,
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
        """Takes two steps of a block, unless this model has decoded so before. A failure will happen again later."""
        config = run.config
        setup = lane.key, config.decoder, config.token_thoughts
        if setup in self._warm or run.cancel.is_set():
            return
        short = config.replace(max_new_tokens=1, max_denoising_steps=2)
        first = dataclasses.replace(run, config=short, keep=False, run_id=new_id())
        for _ in run_alone(runner.backend, first):
            pass
        self._warm.add(setup)

    def _runners(
        self, request: RaceRequest, present: LoadedModel | None, put: Callable[[ServiceReply], object]
    ) -> list[Runner]:
        """Returns the runner of each lane, the same object for lanes of one model; fewer if the race is cancelled.

        Loads missing models, and unloads those that no lane uses.

        Raises:
            SafelightError: a model cannot be loaded, or is on another machine.
        """
        known = dict(self._siblings)
        if present is not None and not present.parts:
            known[present.path_or_id, present.adapter or ""] = Runner(self._backend, present)
        by_key = {lane.key: lane for lane in request.lanes}
        for lane in request.lanes:
            if is_remote(lane.model):
                raise SafelightError(
                    Sentence("{model} runs on another machine; choose models on this one.", model=lane.title)
                )
        for key in [key for key in self._siblings if key not in by_key]:
            self._siblings.pop(key).backend.unload()
        for key, lane in by_key.items():
            if key not in known:
                runner = self._load(lane, request, put)
                if runner is None:
                    return []
                known[key] = self._siblings[key] = runner
        return [known[lane.key] for lane in request.lanes]

    def _load(self, lane: Lane, request: RaceRequest, put: Callable[[ServiceReply], object]) -> Runner | None:
        """Loads a lane's model next to the others; returns None if the race was cancelled meanwhile.

        Raises:
            SafelightError: it cannot be loaded.
        """
        load = LoadRequest(lane.model, lane.title, request.threads, lane.adapter or None, cancel=request.cancel)
        return load_sibling(self._backend, load, lambda share: put(RaceLoading(request.race_id, lane.title, share)))


def _take_turn(lane: _Open, put: Callable[[ServiceReply], object]) -> bool:
    """Advances a lane to the first of its events behind a pass; returns True if it goes on from there.

    The clock of a run is stopped while its event is handled, so that the other lanes' turns are not counted.
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
