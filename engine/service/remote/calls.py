"""Sends requests to one server: bounded, only to its own origin, without redirects.

And finds out what a server is, which models it has, and whether it can be reached.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.config import MAX_POSITIONS
from engine.errors import SafelightError, Sentence
from engine.exchange import Exchange
from engine.files import JSON_BYTES, parse_json
from engine.service.remote import problems
from engine.service.remote.address import RemoteAddress
from engine.service.remote.problems import WIRE_ERRORS, RemoteError

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
    count = field_of(raw, *names)
    return count if type(count) is int and 0 <= count <= most else None


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
            body_bytes = answer.whole(most, ends - time.monotonic())
        if body_bytes is None:
            raise RemoteError("The server at {where} sends too much data.", where=self.address.origin)
        return body_bytes

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
        asked = Exchange(
            url,
            self._headers(accept, body),
            check,
            seconds=self.patience.answer if seconds is None else seconds,
            stall=self.patience.stall,
            connect=self.patience.connect,
            body=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
            uses_proxies=not self.address.is_near,
        )
        with ExitStack() as stack:
            with self._in_words():
                answer = stack.enter_context(asked)
            if answer.status != 200:
                raise problems.of_status(answer.status, self._error_body(answer), self.address)
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise problems.strange(self.address)  # compressed, which was not requested
            yield answer

    def _error_body(self, answer: Exchange) -> bytes:
        """Returns the beginning of an error's body, as far as it comes in time."""
        beginning = b""
        with suppress(*WIRE_ERRORS):
            for piece in answer.pieces(min(self.patience.short, 5.0)):
                beginning += piece
                if len(beginning) >= ERROR_BYTES:
                    break
        return beginning[:ERROR_BYTES]

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


ServerKind = Literal["safelight", "vllm", "openai"]
MAX_MODELS = 10_000
_CONTEXTS = (
    ("max_model_len",),
    ("context_length",),
    ("max_context_length",),
    ("loaded_context_length",),
    ("meta", "n_ctx"),  # llama.cpp's
)


@dataclass(frozen=True)
class RemoteModel:
    """A model that a server lists."""

    address: RemoteAddress  # with the model's name; its ``str`` is the path that it is loaded by
    kind: ServerKind
    context: int = 0  # tokens; 0 where the server does not say

    @property
    def id(self) -> str:
        return self.address.model


@dataclass(frozen=True)
class Reachability:
    """The result of a probe. ``words`` can be translated."""

    is_reachable: bool
    words: Sentence
    milliseconds: float = 0.0  # until the answer
    models: tuple[RemoteModel, ...] = ()
    wants_key: bool = False


def probe(
    address: RemoteAddress,
    key: str | None = None,
    *,
    is_allowed: Callable[[str], bool] = anywhere,
    patience: RemotePatience = PATIENCE,
) -> Reachability:
    """Checks whether a server answers. Uses the network, and never raises for its findings."""
    started = time.monotonic()
    try:
        models = models_of(Calls(address, key, is_allowed, patience))
    except RemoteError as error:
        return Reachability(False, error.sentence, wants_key=isinstance(error, problems.KeyRefusedError))
    milliseconds = 1000 * (time.monotonic() - started)
    if len(models) == 1:
        words = Sentence("Reachable, with one model")
    else:
        words = Sentence("Reachable, with {count} models", count=len(models))
    return Reachability(True, words, milliseconds, models)


def models_of(calls: Calls, check: Check = no_check) -> tuple[RemoteModel, ...]:
    """Returns the models of a server, in its order. Uses the network.

    Raises:
        RemoteError: the server does not answer, or refuses.
    """
    raw = calls.json(calls.address.base + "/models", check=check)
    listed = field_of(raw, "data")
    if not isinstance(listed, list) or len(listed) > MAX_MODELS:
        raise problems.strange(calls.address)
    models = (_model(one, calls.address) for one in listed)
    return tuple(model for model in models if model is not None)


def _model(raw: Any, address: RemoteAddress) -> RemoteModel | None:
    """Returns a model of the list; None if it has no usable name."""
    name = field_of(raw, "id")
    if not isinstance(name, str) or not name:
        return None
    try:
        named = address.with_model(name)
    except SafelightError:
        return None
    owner = raw.get("owned_by")
    kind: ServerKind = owner if owner in ("safelight", "vllm") else "openai"
    contexts = (count_of(raw, *names) for names in _CONTEXTS)
    return RemoteModel(named, kind, next(filter(None, contexts), 0))
