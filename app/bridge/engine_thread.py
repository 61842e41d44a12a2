"""A backend on a thread of its own, and the bridge by which the window talks to it.

Requests go in as queued signals; everything comes back through one bounded mailbox. Knows no widgets.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QThread, Signal, Slot

from app.bridge.mailbox import Mailbox
from app.bridge.pacing import Pacing
from app.system import logs
from engine.service import AdapterRequest, Backend, InfluenceRequest, LoadRequest, RunRequest, ServiceReply

ENDING_SECONDS = 10.0  # for the step, or the part of a load, that is under way
STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries


def _never() -> bool:
    return False


class EngineWorker(QObject):
    """Lives in the engine's thread and asks the backend; each reply goes into the mailbox."""

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
    """The window's side: starts the thread, sends requests, and hands on what arrived.

    A small model takes a step faster than an eye can follow: ``pace_ms`` keeps each step in view at least so long. The
    engine then waits for the view, so that Stop ends the run where it is seen to be. A slower model waits for nothing.
    Must be shut down before it is destroyed.
    """

    arrived = Signal(object)  # list[ServiceReply], in order
    _load_asked = Signal(object)
    _unload_asked = Signal()
    _run_asked = Signal(object)
    _adapter_asked = Signal(object)
    _influence_asked = Signal(object)

    def __init__(self, backend: Backend, *, mailbox_limit: int = 256) -> None:
        super().__init__()
        self.threads = 0  # of the processor, for the models that are loaded from now on; 0 goes by the model
        self._mailbox: Mailbox[ServiceReply] = Mailbox(mailbox_limit)
        self._pacing = Pacing(self._mailbox, self)
        self._pacing.released.connect(self.arrived)
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
        self._worker.mail.connect(self._pacing.drain, queued)
        self._thread.start()

    @property
    def pace_ms(self) -> int:
        """Least time between two steps on show, in milliseconds."""
        return self._pacing.pace_ms

    @pace_ms.setter
    def pace_ms(self, value: int) -> None:
        self._pacing.pace_ms = value

    def load(self, path_or_id: str, title: str) -> None:
        """Load a model; a run or load that is under way is given up."""
        self._give_up()
        self._load_request = LoadRequest(path_or_id, title, self.threads)
        self._load_asked.emit(self._load_request)

    def unload(self) -> None:
        """Let go of the model; a run or load that is under way is given up."""
        self._give_up()
        self._unload_asked.emit()

    def _give_up(self) -> None:
        self.cancel()
        if self._load_request is not None:
            self._load_request.cancel.set()

    def run(self, request: RunRequest) -> None:
        """Generate. One run at a time: the next waits for the end of this one."""
        self._run_request = request
        self._pacing.expect(request)
        self._run_asked.emit(request)

    def set_adapter(self, path_or_id: str | None) -> None:
        """Put an adapter on the loaded model, or take it off; waits for the run under way."""
        self._adapter_asked.emit(AdapterRequest(path_or_id))

    def measure(self, request: InfluenceRequest) -> None:
        """Measure an influence; waits for the run under way."""
        self._influence_asked.emit(request)

    def cancel(self) -> None:
        """Stop the run within one denoising step; does nothing when none is under way."""
        if self._run_request is not None:
            self._run_request.cancel.set()
            self._pacing.skip(self._run_request)

    def shutdown(self) -> None:
        """Give up what is under way and end the thread; may be called again.

        A library that answers to nobody is left behind after ``ENDING_SECONDS``; the thread is alive then.
        """
        self._give_up()
        self._mailbox.close()
        self._thread.quit()
        if not self._thread.wait(round(ENDING_SECONDS * 1000)):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.isRunning()
