"""Starts and stops the local server, and lists its requests. Knows no widgets.

Starting, stopping and the keyring may take seconds, so they run one after another in a separate thread. It is a daemon,
as a keyring that asks for a password must not keep the process alive.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.settings.preferences import Preferences
from app.system import logs
from app.system.crash_handler import one_line
from app.system.secret import SERVER_KEY, Place, Secret
from app.system.timers import later
from engine import SafelightError
from engine.service import Scheduler

if TYPE_CHECKING:
    from engine.server.live import LiveRequest
    from engine.server.running import RunningServer

ServerPhase = Literal["off", "starting", "on"]
LOOK_MS = 100  # between two reads of the requests, while they change or one is unfinished
MAX_EARLIER = 50  # requests of earlier servers that stay on the list
CLOSING_SECONDS = 8.0  # most time for the server to stop when the app ends
OUTSIDE = "192.0.2.1"  # reserved for documentation (RFC 5737); finds our outgoing address without sending anything
CONTAINER_HOST = "host.docker.internal"  # the name of this machine in containers


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The wanted state of the server. ``is_open`` makes it reachable from other machines."""

    is_on: bool = False
    port: int = 0
    is_open: bool = False
    new_key: bool = False  # replaces the stored key


@dataclasses.dataclass(frozen=True)
class ServerState:
    """The actual state of the server. ``url`` ends in ``/v1``; ``problem`` says why it could not be started."""

    phase: ServerPhase = "off"
    url: str = ""
    key: str = dataclasses.field(default="", repr=False)
    key_place: Place = "nowhere"
    is_open: bool = False
    problem: str = ""


class ServerLink(QObject):
    """Brings the server to the state that the preferences ask for. Must be closed before the scheduler."""

    changed = Signal()  # ``state``
    requests_changed = Signal()  # ``requests``, at most ten times a second
    _arrived = Signal(object, int)  # from the thread: a ServerState, and the number of its wish
    _stirred = Signal()  # from the server's threads: its requests have changed

    def __init__(self, scheduler: Scheduler, key: Secret | None = None) -> None:
        super().__init__()
        self.state = ServerState()
        self.requests: tuple[LiveRequest, ...] = ()  # newest first
        self._scheduler, self._key = scheduler, key or Secret(SERVER_KEY)
        self._wanted = Wanted()
        self._wishes: SimpleQueue[tuple[Wanted, int] | None] = SimpleQueue()
        self._count = 0  # of wishes
        self._thread: threading.Thread | None = None
        self._server: RunningServer | None = None
        self._known: tuple[str, Place] = ("", "nowhere")  # the key and its place; used in the thread only
        self._makes_key = False
        self._earlier: tuple[LiveRequest, ...] = ()
        self._is_stirred = False  # the requests have changed and were not read since
        self._is_closed = False
        self._gather = later(self, self._look, LOOK_MS)
        queued = Qt.ConnectionType.QueuedConnection
        self._arrived.connect(self._show_latest, queued)
        self._stirred.connect(self._wait_to_look, queued)

    @property
    def is_on(self) -> bool:
        return self.state.phase == "on"

    def is_own(self, path_or_id: str) -> bool:
        """True if a model's address is this server's own, which would call itself without end."""
        return bool(self.state.url) and path_or_id.partition("#")[0].rstrip("/") == self.state.url

    @property
    def unfinished(self) -> int:
        """The number of requests that are waiting or running."""
        return sum(is_unfinished(request) for request in self.requests)

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def apply(self, preferences: Preferences) -> None:
        """Starts, stops or moves the server if needed. Offline, only this machine can reach it."""
        is_open = preferences.server_open and not preferences.offline
        wanted = Wanted(preferences.server, preferences.server_port, is_open)
        if wanted != self._wanted or self.state.problem:
            self._ask(wanted)

    def stop(self, *requests: LiveRequest) -> None:
        """Stops requests within one denoising step."""
        for request in requests:
            request.stop()
        self._scheduler.wake()

    def renew_key(self) -> None:
        """Replaces the key with a new one; the old key is refused from then on."""
        self._ask(dataclasses.replace(self._wanted, new_key=True))

    def _ask(self, wanted: Wanted) -> None:
        if self._is_closed or (self._thread is None and not wanted.is_on and not wanted.new_key):
            return
        self._wanted = dataclasses.replace(wanted, new_key=False)
        self._count += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="safelight-server-switch", daemon=True)
            self._thread.start()
        self._wishes.put((wanted, self._count))
        phase: ServerPhase = "starting" if wanted.is_on else "off"
        self._show(dataclasses.replace(self.state, phase=phase, url="", problem=""))

    def close(self) -> None:
        """Stops the server and ends the thread; may be called again."""
        self._is_closed = True
        self._gather.stop()
        self._wishes.put(None)
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
            if self._thread.is_alive():
                logs.log.warning("the server's thread did not end in %.0f s", CLOSING_SECONDS)

    @Slot(object, int)
    def _show_latest(self, state: ServerState, count: int) -> None:
        if count == self._count and not self._is_closed:
            self._look()
            self._show(state)

    def _show(self, state: ServerState) -> None:
        if state != self.state:
            self.state = state
            self.changed.emit()

    def _work(self) -> None:
        while (wish := self._wishes.get()) is not None:
            wanted, count = wish
            self._stop()
            if wanted.new_key:
                self._known = ("", "nowhere")
                self._makes_key = True
            if self._wishes.empty():  # else only the latest wish counts
                self._arrived.emit(self._fulfil(wanted), count)
        self._stop()

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._earlier = (*server.live.snapshot(), *self._earlier)[:MAX_EARLIER]

    def _fulfil(self, wanted: Wanted) -> ServerState:
        try:
            # Imports Uvicorn and its dependencies, which a start of the app does not need.
            from engine.server.options import ServerOptions, make_key
            from engine.server.running import RunningServer

            if not wanted.is_on and not self._makes_key:
                return ServerState("off", "", *self._known)
            key, place = self._known = self._usable_key(make_key)
            if not wanted.is_on:
                return ServerState("off", "", key, place)
            name = socket.gethostname()
            names = (*((name, f"{name}.local") if name else ()), CONTAINER_HOST) if wanted.is_open else ()
            host = "0.0.0.0" if wanted.is_open else "127.0.0.1"
            options = ServerOptions(host=host, port=wanted.port, api_key=key, hosts=names)
            server = RunningServer(self._scheduler, options)
            server.live.subscribe(self._stir)
            server.start()
            self._server = server
            url = f"http://{_own_address()}:{server.url.rpartition(':')[2]}" if wanted.is_open else server.url
            return ServerState("on", f"{url}/v1", key, place, wanted.is_open)
        except SafelightError as error:
            return ServerState("off", "", *self._known, problem=str(error))
        except Exception as error:  # the app must survive whatever the libraries raise
            logs.record(error, "in starting the server")
            return ServerState("off", "", *self._known, problem=one_line(error))

    def _usable_key(self, make_key: Callable[[], str]) -> tuple[str, Place]:
        """Returns the known key, the stored one or a new one, with its place."""
        if self._known[0]:
            return self._known
        kept = "" if self._makes_key else self._key.read()
        if kept:
            return kept, "keyring"
        self._makes_key = False
        key = make_key()
        return key, self._key.write(key)

    def _stir(self) -> None:
        if not self._is_stirred and not self._is_closed:
            self._is_stirred = True
            self._stirred.emit()

    @Slot()
    def _wait_to_look(self) -> None:
        if not self._is_closed and not self._gather.isActive():
            self._gather.start()

    @Slot()
    def _look(self) -> None:
        self._is_stirred = False
        server = self._server
        requests = (*(() if server is None else server.live.snapshot()), *self._earlier)
        if requests != self.requests:
            self.requests = requests
            self.requests_changed.emit()
        if any(map(is_unfinished, requests)):
            self._wait_to_look()


def is_unfinished(request: LiveRequest) -> bool:
    return request.state in ("waiting", "running")


def _own_address() -> str:
    """Returns this machine's address in its network; the loopback address if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((OUTSIDE, 9))  # UDP: selects a route and sends nothing
            return str(asking.getsockname()[0])
        except OSError:
            return "127.0.0.1"
