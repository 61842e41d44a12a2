"""Connects the window to the engine: each request is answered with a handle, to which its replies come.

Knows no widgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject

from app.bridge.pacing import Handle, Pacing, RunHandle
from app.state.run.pace import FULL_SPEED
from app.system import logs
from engine import Recording
from engine.service import (
    AdapterRequest,
    Backend,
    BackendRouter,
    BoardRequest,
    InfluenceRequest,
    LoadRequest,
    RaceRequest,
    RunRequest,
    Scheduler,
)
from engine.service.scheduler import Outlet

Asked = TypeVar("Asked", bound=Handle)
ENDING_SECONDS = 10.0  # most time for the running step, or for the running part of a load


class EngineLink(QObject):
    """The window as a client of a scheduler. Must be shut down before it is destroyed."""

    def __init__(
        self, backend: Backend | BackendRouter, *, mailbox_limit: int = 256, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.threads = 0  # CPU threads for models loaded from now on; 0 leaves the choice to the model
        self.scheduler = Scheduler(backend)  # shared with other clients
        self.pacing = Pacing(mailbox_limit, self, now, self.scheduler.wake)

    def load(self, path_or_id: str, title: str, adapter: str | None = None) -> Handle:
        """Loads a model, with an adapter or without; cancels a running load or run."""
        self.pacing.skip_all()
        request = LoadRequest(path_or_id, title, self.threads, adapter)
        return self._ask(Handle(), partial(self.scheduler.load, request))

    def unload(self) -> Handle:
        """Unloads the model; cancels a running load or run."""
        self.pacing.skip_all()
        return self._ask(Handle(), self.scheduler.unload)

    def run(self, request: RunRequest, *, is_watched: bool = True) -> RunHandle:
        """Starts a run. It is paced only if ``is_watched``."""
        handle = RunHandle(request, partial(self._stop, request), is_paced=is_watched)
        return self._ask(handle, partial(self.scheduler.run_all, (request,), client=id(self)))

    def race(self, request: RaceRequest) -> Handle:
        """Starts a race, which is not paced."""
        return self._ask(Handle(partial(self._stop, request)), partial(self.scheduler.race, request))

    def read_board(self, request: BoardRequest) -> Handle:
        """Starts reading a Sudoku from a picture, which is not paced."""
        return self._ask(Handle(partial(self._stop, request)), partial(self.scheduler.read_board, request))

    def set_adapter(self, path_or_id: str | None) -> Handle:
        """Attaches an adapter to the loaded model, or detaches it with None, after the current run."""
        return self._ask(Handle(), partial(self.scheduler.set_adapter, AdapterRequest(path_or_id)))

    def measure(self, request: InfluenceRequest) -> Handle:
        """Measures an influence after the current run."""
        return self._ask(Handle(), partial(self.scheduler.measure, request))

    def _ask(self, handle: Asked, begin: Callable[[Outlet], object]) -> Asked:
        begin(self.pacing.outlet(handle))
        return handle

    def _stop(self, request: RunRequest | RaceRequest | BoardRequest) -> None:
        self.scheduler.stop(request)
        self.pacing.drain()  # what was held

    def handle_of(self, recording: Recording) -> RunHandle | None:
        """Returns the handle of a recording that still grows; None if there is none."""
        return next((run for run in self.pacing.runs if run.recording is recording), None)

    def shutdown(self) -> None:
        """Cancels everything and ends the thread; may be called again.

        A backend call that does not return within ``ENDING_SECONDS`` is abandoned, and the thread stays alive.
        """
        self.scheduler.stop_all()
        self.pacing.set_speed(FULL_SPEED)  # delivers all replies that still wait
        self.pacing.close()
        if not self.scheduler.close(ENDING_SECONDS):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self.scheduler.is_alive
