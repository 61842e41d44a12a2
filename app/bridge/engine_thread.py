"""Connects the window to the engine: requests go to a scheduler, replies come back through one mailbox.

Knows no widgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal

from app.bridge.mailbox import Mailbox
from app.bridge.pacing import Pacing
from app.state.run.pace import FULL_SPEED
from app.system import logs
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
    ServiceReply,
)

ENDING_SECONDS = 10.0  # most time for the running step, or for the running part of a load


class EngineLink(QObject):
    """The window as a client of a scheduler: sends requests and delivers the replies.

    ``pacing.released`` delivers them when they are due. The link must be shut down before it is destroyed.
    """

    _mail = Signal()  # the mailbox turned non-empty; emitted in the scheduler's thread

    def __init__(
        self, backend: Backend | BackendRouter, *, mailbox_limit: int = 256, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.threads = 0  # CPU threads for models loaded from now on; 0 leaves the choice to the model
        self._mailbox: Mailbox[ServiceReply] = Mailbox(mailbox_limit)
        self.pacing = Pacing(self._mailbox, self, now)
        self._mail.connect(self.pacing.drain, Qt.ConnectionType.QueuedConnection)
        self._run_request: RunRequest | None = None
        self.scheduler = Scheduler(backend)  # shared with other clients
        self._mailbox.on_drained = self.scheduler.wake

    def put(self, reply: ServiceReply) -> None:
        """Adds a reply for the window; called in the scheduler's thread."""
        if self._mailbox.put(reply):
            self._mail.emit()

    @property
    def is_full(self) -> bool:
        """True if the window is so far behind that its runs must pause."""
        return self._mailbox.is_full

    def load(self, path_or_id: str, title: str, adapter: str | None = None) -> None:
        """Loads a model, with an adapter or without; cancels a running load or run."""
        self.stop()
        self.scheduler.load(LoadRequest(path_or_id, title, self.threads, adapter), self)

    def unload(self) -> None:
        """Unloads the model; cancels a running load or run."""
        self.stop()
        self.scheduler.unload(self)

    def run(self, request: RunRequest, *, is_watched: bool = True) -> None:
        """Starts a run. It is paced only if ``is_watched``."""
        self._run_request = request
        if is_watched:
            self.pacing.expect(request)
        self.scheduler.run(request, self)

    def race(self, request: RaceRequest) -> None:
        """Starts a race, which is not paced."""
        self.scheduler.race(request, self)

    def read_board(self, request: BoardRequest) -> None:
        """Starts reading a Sudoku from a picture, which is not paced."""
        self.scheduler.read_board(request, self)

    def set_adapter(self, path_or_id: str | None) -> None:
        """Attaches an adapter to the loaded model, or detaches it with None, after the current run."""
        self.scheduler.set_adapter(AdapterRequest(path_or_id), self)

    def measure(self, request: InfluenceRequest) -> None:
        """Measures an influence after the current run."""
        self.scheduler.measure(request, self)

    def stop(self) -> None:
        """Stops the newest run within one denoising step, if there is one."""
        if self._run_request is not None:
            self.scheduler.stop(self._run_request)
            self.pacing.skip(self._run_request)

    def shutdown(self) -> None:
        """Cancels everything and ends the thread; may be called again.

        A backend call that does not return within ``ENDING_SECONDS`` is abandoned, and the thread stays alive.
        """
        self.stop()
        self.pacing.set_speed(FULL_SPEED)  # delivers all replies that still wait
        self._mailbox.close()
        if not self.scheduler.close(ENDING_SECONDS):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self.scheduler.is_alive
