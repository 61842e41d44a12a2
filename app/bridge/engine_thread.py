"""Runs a backend in a thread of its own and connects it to the window.

Requests go in as queued signals; everything comes back through one bounded mailbox. Knows no widgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QThread, Signal, Slot

from app.bridge.mailbox import Mailbox
from app.bridge.pacing import Pacing
from app.state.run.pace import FULL_SPEED
from app.system import logs
from engine.service import AdapterRequest, Backend, InfluenceRequest, LoadRequest, RunRequest, ServiceReply

ENDING_SECONDS = 10.0  # for the running step, or the running part of a load
STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries


def _never() -> bool:
    return False


class EngineWorker(QObject):
    """Lives in the engine's thread and calls the backend; puts each reply into the mailbox."""

    mail = Signal()  # the mailbox turned non-empty

    def __init__(self, backend: Backend, mailbox: Mailbox[ServiceReply]) -> None:
        super().__init__()
        self._backend = backend
        self._mailbox = mailbox

    def _post(self, reply: ServiceReply, hurry: Callable[[], bool] = _never) -> None:
        if self._mailbox.put(reply, hurry):
            self.mail.emit()

    @Slot(object)
    def load(self, request: LoadRequest) -> None:
        self._backend.load(request, lambda reply: self._post(reply, request.cancel.is_set))

    @Slot()
    def unload(self) -> None:
        self._post(self._backend.unload())

    @Slot(object)
    def run(self, request: RunRequest) -> None:
        for reply in self._backend.run(request):
            self._post(reply, request.cancel.is_set)

    @Slot(object)
    def set_adapter(self, request: AdapterRequest) -> None:
        self._post(self._backend.set_adapter(request))

    @Slot(object)
    def measure(self, request: InfluenceRequest) -> None:
        self._post(self._backend.measure(request))


class EngineLink(QObject):
    """The window's side: starts the thread, sends requests, and delivers the replies.

    ``pacing`` decides when what has arrived is delivered. Must be shut down before it is destroyed.
    """

    arrived = Signal(object)  # list[ServiceReply], in order
    _load_asked = Signal(object)
    _unload_asked = Signal()
    _run_asked = Signal(object)
    _adapter_asked = Signal(object)
    _influence_asked = Signal(object)

    def __init__(
        self, backend: Backend, *, mailbox_limit: int = 256, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.threads = 0  # CPU threads for models loaded from now on; 0: chosen by the model
        self._mailbox: Mailbox[ServiceReply] = Mailbox(mailbox_limit)
        self.pacing = Pacing(self._mailbox, self, now)
        self.pacing.released.connect(self.arrived)
        self._load_request: LoadRequest | None = None
        self._run_request: RunRequest | None = None
        self._worker = EngineWorker(backend, self._mailbox)
        self._thread = QThread()
        self._thread.setObjectName("safelight-engine")
        self._thread.setStackSize(STACK_BYTES)
        self._worker.moveToThread(self._thread)
        queued = Qt.ConnectionType.QueuedConnection
        self._load_asked.connect(self._worker.load, queued)
        self._unload_asked.connect(self._worker.unload, queued)
        self._run_asked.connect(self._worker.run, queued)
        self._adapter_asked.connect(self._worker.set_adapter, queued)
        self._influence_asked.connect(self._worker.measure, queued)
        self._worker.mail.connect(self.pacing.drain, queued)
        self._thread.start()

    def load(self, path_or_id: str, title: str, adapter: str | None = None) -> None:
        """Load a model, with an adapter on it or none; cancels a running load or run."""
        self._give_up()
        self._load_request = LoadRequest(path_or_id, title, self.threads, adapter)
        self._load_asked.emit(self._load_request)

    def unload(self) -> None:
        """Unload the model; cancels a running load or run."""
        self._give_up()
        self._unload_asked.emit()

    def _give_up(self) -> None:
        self.cancel()
        if self._load_request is not None:
            self._load_request.cancel.set()

    def run(self, request: RunRequest, *, is_watched: bool = True) -> None:
        """Generate. One run at a time; further requests are queued. One that is not watched is not paced."""
        self._run_request = request
        if is_watched:
            self.pacing.expect(request)
        self._run_asked.emit(request)

    def set_adapter(self, path_or_id: str | None) -> None:
        """Attach an adapter to the loaded model, or detach it; waits for the current run."""
        self._adapter_asked.emit(AdapterRequest(path_or_id))

    def measure(self, request: InfluenceRequest) -> None:
        """Measure an influence; waits for the current run."""
        self._influence_asked.emit(request)

    def cancel(self) -> None:
        """Stop the run within one denoising step; does nothing when there is none."""
        if self._run_request is not None:
            self._run_request.cancel.set()
            self.pacing.skip(self._run_request)

    def shutdown(self) -> None:
        """Cancel everything and end the thread; may be called again.

        A call that does not return within ``ENDING_SECONDS`` is abandoned; the thread is still alive then.
        """
        self._give_up()
        self.pacing.set_speed(FULL_SPEED)  # what still waits to be shown is delivered
        self._mailbox.close()
        self._thread.quit()
        if not self._thread.wait(round(ENDING_SECONDS * 1000)):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread is running."""
        return self._thread.isRunning()
