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

ENDING_SECONDS = 10.0  # for the running step, or the running part of a load


class EngineLink(QObject):
    """The window as a client of a scheduler: sends requests, and delivers the replies.

    ``pacing`` decides when what has arrived is delivered. Must be shut down before it is destroyed.
    """

    arrived = Signal(object)  # list[ServiceReply], in order
    _mail = Signal()  # the mailbox turned non-empty; emitted in the scheduler's thread

    def __init__(
        self, backend: Backend | BackendRouter, *, mailbox_limit: int = 256, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.threads = 0  # CPU threads for models loaded from now on; 0: chosen by the model
        self._mailbox: Mailbox[ServiceReply] = Mailbox(mailbox_limit)
        self.pacing = Pacing(self._mailbox, self, now)
        self.pacing.released.connect(self.arrived)
        self._mail.connect(self.pacing.drain, Qt.ConnectionType.QueuedConnection)
        self._run_request: RunRequest | None = None
        self.scheduler = Scheduler(backend)  # which others may use, too
        self._mailbox.on_drained = self.scheduler.wake

    def put(self, reply: ServiceReply) -> None:
        """Take a reply for the window; called in the scheduler's thread."""
        if self._mailbox.put(reply):
            self._mail.emit()

    @property
    def is_full(self) -> bool:
        """Whether the window is so far behind that its runs are not to be taken further."""
        return self._mailbox.is_full

    def load(self, path_or_id: str, title: str, adapter: str | None = None) -> None:
        """Load a model, with an adapter on it or none; cancels a running load or run."""
        self.stop()
        self.scheduler.load(LoadRequest(path_or_id, title, self.threads, adapter), self)

    def unload(self) -> None:
        """Unload the model; cancels a running load or run."""
        self.stop()
        self.scheduler.unload(self)

    def run(self, request: RunRequest, *, is_watched: bool = True) -> None:
        """Generate. One that is not watched is not paced."""
        self._run_request = request
        if is_watched:
            self.pacing.expect(request)
        self.scheduler.run(request, self)

    def race(self, request: RaceRequest) -> None:
        """Run a race, which is not paced."""
        self.scheduler.race(request, self)

    def read_board(self, request: BoardRequest) -> None:
        """Read a Sudoku from a picture, which is not paced."""
        self.scheduler.read_board(request, self)

    def set_adapter(self, path_or_id: str | None) -> None:
        """Attach an adapter to the loaded model, or detach it; waits for the current run."""
        self.scheduler.set_adapter(AdapterRequest(path_or_id), self)

    def measure(self, request: InfluenceRequest) -> None:
        """Measure an influence; waits for the current run."""
        self.scheduler.measure(request, self)

    def stop(self) -> None:
        """Stop the newest run within one denoising step; does nothing when there is none."""
        if self._run_request is not None:
            self.scheduler.stop(self._run_request)
            self.pacing.skip(self._run_request)

    def shutdown(self) -> None:
        """Cancel everything and end the thread; may be called again.

        A call that does not return within ``ENDING_SECONDS`` is abandoned; the thread is still alive then.
        """
        self.stop()
        self.pacing.set_speed(FULL_SPEED)  # what still waits to be shown is delivered
        self._mailbox.close()
        if not self.scheduler.close(ENDING_SECONDS):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread is running."""
        return self.scheduler.is_alive
