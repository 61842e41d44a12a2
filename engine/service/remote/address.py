"""The address of a model on another machine: ``http(s)://host:port[/v1]#MODEL``."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from engine.errors import SafelightError, quoted
from engine.service.requests import is_remote
from engine.tools.declared import is_loopback

MAX_ADDRESS_CHARACTERS = 2_048  # characters of an address
LONGEST_MODEL = 512  # characters of a model's name
PREFIX = "/v1"  # if the address names none
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*\.?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,100}){0,8}")


@dataclass(frozen=True)
class RemoteAddress:
    """A server, and a model on it or none."""

    origin: str  # "http://host:port"
    host: str
    prefix: str = PREFIX  # before the routes of OpenAI's kind
    model: str = ""

    @staticmethod
    def parse(text: str) -> RemoteAddress:
        """Returns the address that a text gives.

        Raises:
            SafelightError: it is no such address; the message says what is wrong with it, in one sentence.
        """
        text = text.strip()
        if not is_remote(text):
            raise SafelightError(
                f"a server's address begins with http:// or https://, such as http://127.0.0.1:8000, not {quoted(text)}"
            )
        if len(text) > MAX_ADDRESS_CHARACTERS or not text.isprintable() or (not text.isascii() and "#" not in text):
            raise SafelightError("the address is too long, or contains invalid characters; enter it again")
        where, _, model = text.partition("#")
        try:
            parts = urlsplit(where)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise SafelightError(f"the address {quoted(where)} has no valid host and port") from None
        if "@" in parts.netloc:
            raise SafelightError("an address must not contain a name or password; enter the key in its own field")
        if parts.query or "?" in where:
            raise SafelightError("a server's address must not contain a question mark; remove it and what follows")
        if not _is_host(host) or port == 0:
            raise SafelightError(f"the address {quoted(where)} has no valid host and port")
        prefix = parts.path.rstrip("/") or PREFIX
        if not _PREFIX.fullmatch(prefix) or ".." in prefix:
            raise SafelightError(f"the address {quoted(where)} has no valid path; usually it ends with /v1")
        name = f"[{host}]" if ":" in host else host
        origin = f"{parts.scheme}://{name}" + ("" if port is None else f":{port}")
        return RemoteAddress(origin, host, prefix).with_model(model)

    def with_model(self, model: str) -> RemoteAddress:
        """Returns the address of a model on this server.

        Raises:
            SafelightError: no model has such a name.
        """
        if len(model) > LONGEST_MODEL or not model.isprintable() or model != model.strip():
            raise SafelightError(f"{quoted(model)} is not a name of a model; choose one that the server lists")
        return replace(self, model=model)

    def __str__(self) -> str:
        """The path that the model is loaded by."""
        return self.base + (f"#{self.model}" if self.model else "")

    @property
    def base(self) -> str:
        """The beginning of the URLs of OpenAI's routes: ``base + "/models"``."""
        return self.origin + self.prefix

    @property
    def root(self) -> str:
        """The beginning of the URLs of a server's own routes: ``root + "/version"``."""
        return self.origin + self.prefix.removesuffix(PREFIX)

    @property
    def is_near(self) -> bool:
        return is_loopback(self.host)


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return len(host) <= 253 and _HOST.fullmatch(host) is not None
    return True
