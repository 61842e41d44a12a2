"""The switch of the local server, and what it is answering. Knows no widgets.

Starting, stopping and the keyring may take seconds, so they happen one after another in a thread of their own, which
is a daemon: a keyring that asks for a password must not keep the process alive.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from app.settings.preferences import Preferences
from app.system import logs
from app.system.crash_handler import one_line
from app.system.secret import SERVER_KEY, Place, Secret
from engine import SafelightError
from engine.service import Scheduler

if TYPE_CHECKING:
    from engine.server.live import LiveRequest
    from engine.server.running import RunningServer

ServerPhase = Literal["off", "starting", "on"]
LOOK_MS = 100  # between two looks at the requests while they change or one is under way
MOST_EARLIER = 50  # requests of a server before this one that stay on the list
CLOSING_SECONDS = 8.0  # for the server to stop when the app ends
OUTSIDE = "192.0.2.1"  # an address of documentations, to learn which of ours leads out; nothing is sent
CONTAINER_HOST = "host.docker.internal"  # what containers call this machine


@dataclasses.dataclass(frozen=True)
class Wanted:
    """How the server is to be. ``is_open``: reachable from other machines."""

    is_on: bool = False
    port: int = 0
    is_open: bool = False
    new_key: bool = False  # in place of the one that is kept


@dataclasses.dataclass(frozen=True)
class ServerState:
    """How the server is. ``url`` ends in ``/v1``; ``problem`` says why it could not be started."""

    phase: ServerPhase = "off"
    url: str = ""
    key: str = dataclasses.field(default="", repr=False)
    key_place: Place = "nowhere"
    is_open: bool = False
    problem: str = ""


class ServerLink(QObject):
    """Brings the server to what the preferences say. Must be closed before the scheduler is."""

    changed = Signal()  # ``state``
    requests_changed = Signal()  # ``requests``, at most ten times a second
    _arrived = Signal(object, int)  # from the thread: a ServerState, and which wish it fulfils
    _stirred = Signal()  # from the server's threads

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
        self._known: tuple[str, Place] = ("", "nowhere")  # the key, and where it is kept; the thread's own
        self._makes_key = False
        self._earlier: tuple[LiveRequest, ...] = ()
        self._is_stirred = False  # and the look that it asks for is to come
        self._is_closed = False
        self._gather = QTimer(self)
        self._gather.setSingleShot(True)
        self._gather.timeout.connect(self._look)
        queued = Qt.ConnectionType.QueuedConnection
        self._arrived.connect(self._take, queued)
        self._stirred.connect(self._wait_to_look, queued)

    @property
    def is_on(self) -> bool:
        return self.state.phase == "on"

    def is_own(self, path_or_id: str) -> bool:
        """Whether what loads a model is this server's own address, which would ask itself for ever."""
        return bool(self.state.url) and path_or_id.partition("#")[0].rstrip("/") == self.state.url

    @property
    def under_way(self) -> int:
        """How many requests are waiting or running."""
        return sum(is_under_way(request) for request in self.requests)

    @property
    def is_alive(self) -> bool:
        """Whether its thread is running."""
        return self._thread is not None and self._thread.is_alive()

    # ---------------------------------------------------------------- the switch

    def apply(self, preferences: Preferences) -> None:
        """Start, stop or move the server; does nothing where it is as wanted. Offline, it stays on this machine."""
        is_open = preferences.server_open and not preferences.offline
        wanted = Wanted(preferences.server, preferences.server_port, is_open)
        if wanted != self._wanted or self.state.problem:
            self._ask(wanted)

    def renew_key(self) -> None:
        """Make another key in place of the present one, which is refused from then on."""
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
        """Stop the server and end the thread; may be called again."""
        self._is_closed = True
        self._gather.stop()
        self._wishes.put(None)
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
            if self._thread.is_alive():
                logs.log.warning("the server's thread did not end in %.0f s", CLOSING_SECONDS)

    @Slot(object, int)
    def _take(self, state: ServerState, count: int) -> None:
        if count == self._count and not self._is_closed:
            self._look()
            self._show(state)

    def _show(self, state: ServerState) -> None:
        if state != self.state:
            self.state = state
            self.changed.emit()

    # ---------------------------------------------------------------- in the thread

    def _work(self) -> None:
        while (wish := self._wishes.get()) is not None:
            wanted, count = wish
            self._stop()
            if wanted.new_key:
                self._known = ("", "nowhere")
                self._makes_key = True
            if self._wishes.empty():  # else the next one is to be fulfilled
                self._arrived.emit(self._fulfil(wanted), count)
        self._stop()

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._earlier = (*server.live.snapshot(), *self._earlier)[:MOST_EARLIER]

    def _fulfil(self, wanted: Wanted) -> ServerState:
        try:
            # Uvicorn and what it takes with it, which a start of the app does without.
            from engine.server.options import ServerOptions, make_key
            from engine.server.running import RunningServer

            if not wanted.is_on and not self._makes_key:
                return ServerState("off", "", *self._known)
            key, place = self._known = self._usable_key(make_key)
            if not wanted.is_on:
                return ServerState("off", "", key, place)
            host, names = ("0.0.0.0", _own_names()) if wanted.is_open else ("127.0.0.1", ())
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
        """The key that is known, or kept, or a new one; and where it is kept."""
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

    # ---------------------------------------------------------------- the requests

    @Slot()
    def _wait_to_look(self) -> None:
        if not self._is_closed and not self._gather.isActive():
            self._gather.start(LOOK_MS)

    @Slot()
    def _look(self) -> None:
        self._is_stirred = False
        server = self._server
        found = (*(() if server is None else server.live.snapshot()), *self._earlier)
        if found != self.requests:
            self.requests = found
            self.requests_changed.emit()
        if any(map(is_under_way, found)):
            self._wait_to_look()


def is_under_way(request: LiveRequest) -> bool:
    """Whether a request is waiting or running."""
    return request.state in ("waiting", "running")


def _own_address() -> str:
    """This machine's address in its network; the loopback one where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((OUTSIDE, 9))  # chooses a way and sends nothing
            return str(asking.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _own_names() -> tuple[str, ...]:
    """What others may call this machine, besides its addresses."""
    name = socket.gethostname()
    return (*((name, f"{name}.local") if name else ()), CONTAINER_HOST)
