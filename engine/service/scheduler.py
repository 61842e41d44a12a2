"""Shares one backend among any number of clients: a window, a server, a test. Knows neither Qt, HTTP nor torch.

The backend runs in one thread. Runs that the backend admits go on together, a pass of each at a time. Among those that
wait, clients take turns, and each client's requests do; requests of one client are served in the order in which they
came. A load, an adapter, a measurement, a race and a picture's board wait until no run is active, and the runs that
came after them wait for them.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine import catalog
from engine.errors import SafelightError, Sentence
from engine.service.backend import Backend, RunSteps
from engine.service.racing import Racing
from engine.service.reading_boards import read_board
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadStarted,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunEnded,
    RunReply,
    ServiceReply,
    explained,
)
from engine.service.requests import AdapterRequest, BoardRequest, InfluenceRequest, LoadRequest, RaceRequest, RunRequest
from engine.service.routing import BackendRouter

STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries
POLL_SECONDS = 0.05  # between two checks of the cancel flags while nothing else is to do
MAX_REPLIES = 16  # of one run in a turn, so that one without passes does not delay the others


class BusyError(SafelightError):
    """Too many runs wait already."""


class Outlet(Protocol):
    """A client's receiver of replies; called in the scheduler's thread."""

    def put(self, reply: ServiceReply) -> None:
        """Takes a reply; must not block."""

    @property
    def is_full(self) -> bool:
        """True while its runs must not advance; the others do. Call ``Scheduler.wake`` once it is False."""


@dataclass(eq=False)
class _Run:
    """A waiting or active run."""

    request: RunRequest
    outlet: Outlet
    client: object
    steps: RunSteps | None = None
    wanted: PassWanted | None = None

    @property
    def is_paused(self) -> bool:
        return self.outlet.is_full and not self.request.cancel.is_set()


@dataclass(eq=False)
class _Call:
    """A task that is done while no run is active."""

    perform: Callable[[], None]
    cancel: threading.Event | None = None  # stops it, if it is a race or a board


class Scheduler:
    """A backend in its own thread. All methods may be called from any thread. Must be closed.

    The backend is called from that thread alone.
    """

    def __init__(self, backend: Backend | BackendRouter) -> None:
        self.model: LoadedModel | None = None
        self.loading: LoadStarted | LoadProgress | None = None
        self._held: LoadedModel | None = None  # the loaded one while another is being loaded
        self._router = backend if isinstance(backend, BackendRouter) else BackendRouter(backend)
        self._waiting: deque[_Run | _Call] = deque()
        self._active: list[_Run] = []
        self._turns: dict[object, int] = {}  # number of the last turn of each client that has runs
        self._turn_count = 0
        self._racing = Racing(self._router.local)
        self._load: LoadRequest | None = None  # the newest
        self._current_call: _Call | None = None
        self._changed = threading.Condition()
        self._has_news = False  # since the thread's last turn
        self._is_closing = False
        before = threading.stack_size(STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._serve, name="safelight-engine", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(before)

    def run(self, request: RunRequest, outlet: Outlet, most_waiting: int | None = None) -> None:
        """Starts a run; the replies end with ``RunEnded``, the only one of a run that is cancelled while it waits.

        Raises:
            BusyError: ``most_waiting`` clients wait already.
        """
        self.run_all((request,), outlet, most_waiting)

    def run_all(
        self,
        requests: Sequence[RunRequest],
        outlet: Outlet,
        most_waiting: int | None = None,
        client: object = None,
    ) -> None:
        """Starts several runs of one request, at the same time as far as the backend admits them.

        Args:
            client: with whom others take turns; None: the outlet.

        Raises:
            BusyError: ``most_waiting`` clients wait already.
        """
        with self._changed:
            clients = {id(item.outlet) for item in self._waiting if isinstance(item, _Run)}
            if most_waiting is not None and len(clients) >= most_waiting:
                raise BusyError(
                    Sentence("{count} requests are already waiting; try again in a moment.", count=len(clients))
                )
            for request in requests:
                if self._is_closing:
                    outlet.put(RunEnded(request.run_id))
                else:
                    run = _Run(request, outlet, id(outlet) if client is None else client)
                    self._turns.setdefault(run.client, self._turn_count)
                    self._waiting.append(run)
            self.wake()

    def load(self, request: LoadRequest, outlet: Outlet) -> None:
        """Loads a model; cancels all earlier requests."""
        self._stop_earlier(request)

        def load() -> None:
            self._racing.forget()  # their memory may be needed
            self._router.load(request, lambda reply: outlet.put(self._noted(reply)))
            self.loading = None

        self._add(_Call(load))

    def unload(self, outlet: Outlet) -> None:
        """Unloads the model; cancels all earlier requests."""

        def unload() -> ModelUnloaded:
            self._racing.forget()
            return self._router.unload()

        self._stop_earlier(None)
        self._call(outlet, unload)

    def race(self, request: RaceRequest, outlet: Outlet) -> None:
        """Runs a race; the replies end with ``RaceEnded``. Other clients' runs wait for its end."""
        self._add(
            _Call(lambda: self._racing.run(request, self.model, outlet.put, lambda: outlet.is_full), request.cancel)
        )

    def read_board(self, request: BoardRequest, outlet: Outlet) -> None:
        """Reads a Sudoku from a picture; the replies end with ``BoardEnded``. Other clients' runs wait for its end."""
        self._add(_Call(lambda: read_board(request, self._router.local, self.model, outlet.put), request.cancel))

    def set_adapter(self, request: AdapterRequest, outlet: Outlet) -> None:
        """Attaches an adapter to the model, or detaches it."""
        self._call(outlet, lambda: self._backend.set_adapter(request))

    def measure(self, request: InfluenceRequest, outlet: Outlet) -> None:
        """Measures how strongly one token influences the others."""
        self._call(outlet, lambda: self._backend.measure(request))

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def _backend(self) -> Backend:
        return self._router.active

    @property
    def running(self) -> int:
        """The number of active runs."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """The number of runs that have not begun."""
        with self._changed:
            return sum(isinstance(item, _Run) for item in self._waiting)

    def wake(self) -> None:
        """Lets the thread check again: an outlet has room, or a run was cancelled."""
        with self._changed:
            self._has_news = True
            self._changed.notify()

    def stop(self, *requests: LoadRequest | RunRequest | RaceRequest | BoardRequest) -> None:
        """Stops requests within one denoising step; those that wait do not begin."""
        for request in requests:
            request.cancel.set()
        self.wake()

    def stop_all(self) -> None:
        """Stops every run and load."""
        self._stop_earlier(None)
        self.wake()

    def close(self, seconds: float = 10.0) -> bool:
        """Stops everything and ends the thread; may be called again. Returns False if it did not end in time."""
        with self._changed:
            self._is_closing = True
            self.stop_all()
        self._thread.join(seconds)
        return not self.is_alive

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _add(self, item: _Run | _Call) -> None:
        with self._changed:
            self._waiting.append(item)
            self.wake()

    def _call(self, outlet: Outlet, call: Callable[[], ServiceReply]) -> None:
        self._add(_Call(lambda: outlet.put(self._noted(call()))))

    def _stop_earlier(self, newest: LoadRequest | None) -> None:
        with self._changed:
            if self._load is not None:
                self._load.cancel.set()
            self._load = newest
            for item in (*self._active, *self._waiting, self._current_call):
                if isinstance(item, _Run):
                    item.request.cancel.set()
                elif item is not None and item.cancel is not None:
                    item.cancel.set()

    def _noted(self, reply: ServiceReply) -> ServiceReply:
        """Keeps the model's state up to date; returns the reply, with the model that it leaves loaded."""
        match reply:
            case LoadStarted():
                self._held, self.model, self.loading = self.model, None, reply
            case LoadProgress():
                self.loading = reply
            case ModelLoaded(model):
                self.model, self.loading = model, None
            case LoadFailed(kept=kept):
                self.model, self.loading = self._held if kept else None, None
                return dataclasses.replace(reply, model=self.model)
            case ModelUnloaded():
                self.model = None
            case AdapterChanged(path, title, message) if self.model is not None and not message:
                traits = catalog.traits(self.model.name, path)
                self.model = dataclasses.replace(self.model, adapter=path, adapter_title=title, traits=traits)
                return dataclasses.replace(reply, model=self.model)
        return reply

    def _serve(self) -> None:
        while self._wait(can_go_on=self._turn()):
            pass

    def _turn(self) -> bool:
        """Advances all runs by one pass; returns True if one can go on at once. Holds no lock while it waits."""
        self._admit()
        runs = self._going()
        for run in runs:
            self._take_further(run)
        going = [run for run in runs if run in self._active and not run.is_paused]
        passes = [(run, run.wanted) for run in going if run.wanted is not None]
        for run, _ in passes:
            run.wanted = None
        self._perform(passes)
        return bool(passes) or any(run in self._active and not run.is_paused for run in runs)

    @property
    def _places(self) -> int:
        """The number of runs that advance at a time."""
        return max(1, self._backend.capabilities.parallel_runs)

    def _going(self) -> list[_Run]:
        """Returns the runs that advance now, in order: a run whose client takes no replies has no place."""
        going = [run for run in self._active if not run.is_paused]
        ending = [run for run in going[self._places :] if run.request.cancel.is_set()]
        return going[: self._places] + ending

    def _admit(self) -> None:
        """Begins the waiting requests, in turn, as far as there are places."""
        while True:
            is_full = len(self._going()) >= self._places
            with self._changed:
                self._drop_cancelled()
                item = None if self._is_closing or is_full else self._next()
                if isinstance(item, _Run):
                    running = [run.request for run in self._active]
                    if running and not self._backend.admits(item.request, running):
                        return
                    self._active.append(item)
                    self._turn_count += 1
                    self._turns[item.client] = self._turn_count
                elif item is None or self._active:
                    return
                self._waiting.remove(item)
                self._current_call = item if isinstance(item, _Call) else None
            if isinstance(item, _Run):
                self._resume(item, functools.partial(self._begin, item))
            else:
                item.perform()
                self._current_call = None

    def _next(self) -> _Run | _Call | None:
        """Returns the waiting item that is to begin; None if the clients of all runs before a call take no replies.

        Of the client with the fewest active runs, and then the one whose last turn is longest ago; of its requests the
        one with the fewest active runs.
        """
        runs = list[_Run]()
        for item in self._waiting:
            if isinstance(item, _Call):
                break
            runs.append(item)
        if not runs:
            return self._waiting[0] if self._waiting else None
        runs = [run for run in runs if not run.is_paused]
        clients = Counter(run.client for run in self._active)
        outlets = Counter(id(run.outlet) for run in self._active)
        return min(
            runs,
            key=lambda run: (clients[run.client], self._turns[run.client], outlets[id(run.outlet)]),
            default=None,
        )

    def _forget(self, run: _Run) -> None:
        """Forgets the turns of a client whose last run this was."""
        if not any(isinstance(one, _Run) and one.client == run.client for one in (*self._active, *self._waiting)):
            self._turns.pop(run.client, None)

    def _drop_cancelled(self) -> None:
        """Ends the runs that were cancelled before they began."""
        if not self._active and not self._is_closing:
            return  # the first one begins at once, and reports that it was cancelled
        for item in list(self._waiting):
            if isinstance(item, _Call):
                if self._is_closing:
                    self._waiting.remove(item)
            elif item.request.cancel.is_set():
                self._waiting.remove(item)
                self._forget(item)
                _deliver(item, RunEnded(item.request.run_id))

    def _begin(self, run: _Run) -> RunReply | PassWanted:
        run.steps = self._backend.begin(run.request)
        return next(run.steps)

    def _take_further(self, run: _Run) -> None:
        """Delivers a run's replies up to its next pass."""
        for _ in range(MAX_REPLIES):
            if run.steps is None or run.wanted is not None or run.is_paused:
                return
            self._resume(run, run.steps.__next__)

    def _resume(self, run: _Run, resume: Callable[[], RunReply | PassWanted]) -> None:
        """Advances a run to its next item, and delivers that."""
        try:
            item = resume()
        except StopIteration:
            self._retire(run)
        except Exception as error:  # a fault of the backend; the thread must live on
            _deliver(run, RunEnded(run.request.run_id, *explained(error)))
            self._retire(run)
        else:
            if isinstance(item, PassWanted):
                run.wanted = item
            else:
                _deliver(run, item)

    def _retire(self, run: _Run) -> None:
        run.steps = None
        with self._changed:
            self._active.remove(run)
            self._forget(run)
            self._has_news = True  # what waits may begin in its place

    def _perform(self, passes: Sequence[tuple[_Run, PassWanted]]) -> None:
        """Performs a pass of each run; after a failure one by one, so that only the run that failed gets the error."""
        try:
            if passes:
                self._backend.perform([wanted for _, wanted in passes])
        except Exception as error:
            if len(passes) > 1:
                for one in passes:
                    if not one[1].is_done:
                        self._perform([one])
            elif (steps := passes[0][0].steps) is not None:
                self._resume(passes[0][0], functools.partial(steps.throw, error))  # it reports what failed

    def _wait(self, *, can_go_on: bool) -> bool:
        """Waits if there is nothing to do; returns False to end the thread."""
        with self._changed:
            if self._is_closing and not self._active and not self._waiting:
                return False
            if not (can_go_on or self._has_news or self._is_closing):
                self._changed.wait(POLL_SECONDS if self._active or self._waiting else None)
            self._has_news = False
        return True


def _deliver(run: _Run, reply: RunReply) -> None:
    """Puts a reply into a run's outlet; cancels the run if that fails."""
    try:
        run.outlet.put(reply)
    except Exception:
        run.request.cancel.set()
