"""The server's address, its permissions, and its limits."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from engine.errors import SafelightError, quoted
from engine.tools.declared import is_loopback

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,255}")
_KEY = re.compile(r"[!-~]{1,512}")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def make_key() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class ServerOptions:
    """The options of a server. Times are in seconds.

    Args:
        port: 0 takes a free one.
        api_key: the key that every request must show.
        origins: web pages that may use the server, as ``https://name:port``; those of other origins are refused.
        hosts: names besides localhost by which the server may be called.
        most_connections: open at once.
        most_waiting: waiting requests; further ones are refused.
        body_bytes: the largest body of a request without images.
        image_body_bytes: the largest body of a request that may hold images, as text.
        most_large_bodies: bodies of more than ``body_bytes`` that are held at once; further ones wait.
        header_seconds, body_seconds: time within which a request must arrive; a body has a second more for each MiB.
        send_seconds: time within which a client must accept sent bytes.
        request_seconds: time from a request to the end of its answer.
        comment_seconds: time without news after which a stream sends a sign of life.
        answer_tokens: the longest answer if ``max_tokens`` is not given.
        keeps_traces: runs are stored as files, if the backend stores files.
    """

    host: str = "127.0.0.1"
    port: int = 0
    api_key: str = field(default_factory=make_key, repr=False)
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    most_connections: int = 384
    most_waiting: int = 256
    body_bytes: int = 2**20
    image_body_bytes: int = 64 * 2**20
    most_large_bodies: int = 4
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 30.0
    request_seconds: float = 1800.0
    comment_seconds: float = 5.0
    answer_tokens: int = 4096
    keeps_traces: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise SafelightError(f"the port must be from 0 to 65535, not {self.port}")
        if not _KEY.fullmatch(self.api_key):
            raise SafelightError("the key must be 1 to 512 characters of ASCII without spaces")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise SafelightError(f"{quoted(origin)} is not an origin; write it as https://name or http://name:port")

    @property
    def is_loopback(self) -> bool:
        """True if only programs on this machine reach the server."""
        return is_loopback(self.host)
