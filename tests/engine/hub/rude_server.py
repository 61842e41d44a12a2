"""A server on the loopback interface that answers with any bytes at all, and as slowly as it likes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HEAD_BYTES = 65_536  # of a request
SECONDS = 0.5  # that one who has stopped reading is waited for


@dataclass
class Request:
    """A request, and means to answer it. ``send`` raises OSError once the other side has gone."""

    path: str
    headers: dict[str, str]
    send: Callable[[bytes], None]
    wait: Callable[[float], bool]  # seconds; True once the server is to end
    body: bytes = b""

    def reply(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        """A whole answer, as it should be."""
        lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", "")
        self.send("\r\n".join(lines).encode("latin-1") + body)


@dataclass
class Rude:
    """``answer`` is called with each request, in a thread of its own."""

    answer: Callable[[Request], None]
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        """Answer one request."""
        with connection, suppress(OSError):
            connection.settimeout(SECONDS)
            head = b""
            while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES and (piece := connection.recv(HEAD_BYTES)):
                head += piece
            lines = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            if len(lines) < 2 or " " not in lines[0]:
                return
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = head.partition(b"\r\n\r\n")[2]
            while len(body) < int(headers.get("content-length", "0")) and (piece := connection.recv(HEAD_BYTES)):
                body += piece
            asked = Request(lines[0].split(" ")[1], headers, connection.sendall, self.ending.wait, body)
            self.requests.append(asked)
            self.answer(asked)


@contextmanager
def answering(answer: Callable[[Request], None]) -> Iterator[Rude]:
    """Serve on a free port; nothing is left when this ends."""
    rude, threads = Rude(answer), list[threading.Thread]()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        rude.port = listening.getsockname()[1]

        def accept() -> None:
            while not rude.ending.is_set():
                with suppress(OSError):
                    connection, _ = listening.accept()
                    thread = threading.Thread(target=rude.serve, args=(connection,), name="rude", daemon=True)
                    threads.append(thread)
                    thread.start()

        door = threading.Thread(target=accept, name="rude-door", daemon=True)
        door.start()
        try:
            yield rude
        finally:
            rude.ending.set()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", rude.port), 1).close()
            door.join()
            for thread in threads:
                thread.join()
