"""Sends requests to one server: bounded, only to its own origin, without redirects. Knows no dialect."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from engine.config import MAX_POSITIONS
from engine.errors import SafelightError
from engine.files import JSON_BYTES, parse_json
from engine.service.remote import problems
from engine.service.remote.address import RemoteAddress
from engine.service.remote.problems import WIRE_ERRORS, RemoteError
from engine.service.remote.wire import Exchange

AGENT = "safelight"
ERROR_BYTES = 2**16  # bytes of an error's body that are read
LONGEST_KEY = 4_096

Check = Callable[[], None]
"""Raises whatever is to end the request; called while it is waited for."""


def field_of(raw: Any, *names: str) -> Any:
    """Returns a field of an object, or of one inside it; None without one."""
    for name in names:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw


def count_of(raw: Any, *names: str, most: int = MAX_POSITIONS) -> int | None:
    """Returns a field as ``field_of`` if it is a number of tokens."""
    found = field_of(raw, *names)
    return found if type(found) is int and 0 <= found <= most else None


@dataclass(frozen=True)
class RemotePatience:
    """The longest waits, in seconds."""

    connect: float = 10.0
    short: float = 15.0  # for an answer that needs no model
    answer: float = 900.0  # until an answer begins: a long prompt is read, or the server has others before us
    stall: float = 300.0  # without a byte in the middle of one


PATIENCE = RemotePatience()


def anywhere(_host: str) -> bool:
    """Allows every host."""
    return True


def no_check() -> None:
    """Ends no request early."""


@dataclass(frozen=True)
class Calls:
    """A server and its key. ``is_allowed`` is called before each request."""

    address: RemoteAddress
    key: str | None = field(default=None, repr=False)
    is_allowed: Callable[[str], bool] = anywhere
    patience: RemotePatience = PATIENCE

    def whole(
        self, url: str, body: Any = None, check: Check = no_check, seconds: float | None = None, most: int = JSON_BYTES
    ) -> bytes:
        """Returns the whole body of the answer to a GET, or to a POST of ``body``.

        Args:
            seconds: the wait for the answer; None: as for any.

        Raises:
            RemoteError: there is none.
        """
        seconds = self.patience.short if seconds is None else seconds
        ends = time.monotonic() + seconds
        with self.asking(url, body, "application/json", check, seconds) as answer, self._in_words():
            found = answer.whole(most, ends - time.monotonic())
        if found is None:
            raise RemoteError("The server at {where} sends too much data.", where=self.address.origin)
        return found

    def json(self, url: str, body: Any = None, check: Check = no_check, seconds: float | None = None) -> Any:
        """Returns the answer as JSON; arguments as in ``whole``.

        Raises:
            RemoteError: as ``whole``, or it is no JSON.
        """
        answer = self.whole(url, body, check, seconds)
        try:
            return parse_json(answer.decode(), "the answer", surrogates=True)
        except (SafelightError, UnicodeDecodeError):
            raise problems.strange(self.address) from None

    @contextmanager
    def asking(
        self, url: str, body: Any, accept: str, check: Check = no_check, seconds: float | None = None
    ) -> Iterator[Exchange]:
        """Yields the answer to a GET, or to a POST of ``body`` (bytes, or else JSON), once its head has status 200.

        Raises:
            RemoteError: it does not come, or has another status.
        """
        if not self.is_allowed(self.address.host):
            raise problems.offline(self.address)
        with self._in_words():
            exchange = Exchange(
                url,
                self._headers(accept, body),
                check,
                seconds=self.patience.answer if seconds is None else seconds,
                stall=self.patience.stall,
                connect=self.patience.connect,
                body=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
                uses_proxies=not self.address.is_near,
            )
            exchange.__enter__()
        try:
            if exchange.status != 200:
                raise problems.of_status(exchange.status, self._error_body(exchange), self.address)
            if exchange.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise problems.strange(self.address)  # compressed, which was not requested
            yield exchange
        finally:
            exchange.__exit__(None)

    def _error_body(self, answer: Exchange) -> bytes:
        """Returns the beginning of an error's body, as far as it comes in time."""
        found = bytearray()
        try:
            for piece in answer.pieces(min(self.patience.short, 5.0)):
                found += piece
                if len(found) >= ERROR_BYTES:
                    break
        except WIRE_ERRORS:
            pass
        return bytes(found[:ERROR_BYTES])

    def _headers(self, accept: str, body: Any) -> dict[str, str]:
        sent = {"User-Agent": AGENT, "Accept": accept, "Accept-Encoding": "identity"}
        if body is not None:
            sent["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        if self.key:
            if len(self.key) > LONGEST_KEY or not self.key.isascii() or not self.key.isprintable() or " " in self.key:
                raise problems.KeyRefusedError(
                    "The key of {where} contains invalid characters. Enter it again.", where=self.address.origin
                )
            sent["Authorization"] = f"Bearer {self.key}"
        return sent

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except WIRE_ERRORS as error:
            raise problems.of_wire(error, self.address) from error
