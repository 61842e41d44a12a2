"""Tool servers as people declare them, in the notation of Claude Desktop and Cursor. Knows no protocol.

``{"mcpServers": {NAME: {"command", "args", "env", "cwd"} or {"url", "headers"}}}``; VS Code writes ``servers``.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from engine.declared import many, read, text
from engine.errors import SafelightError, quoted

MAX_SERVERS = 32
MAX_ENTRIES = 128  # arguments, variables or headers of a server
MAX_VALUE_CHARACTERS = 8_192  # characters of one of them
MAX_DECLARATION_BYTES = 2**20  # of a file of declarations
_LISTS = ("mcpServers", "servers")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")

EXAMPLES = "safelight-examples"
"""The command that stands for the server of the example tools, wherever Safelight is installed."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ToolServer:
    """A server of tools: a program on this machine, or an address.

    Args:
        env: variables that the program gets, besides the few that every program needs.
        is_on: it is started.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Pairs = ()
    cwd: str = ""
    url: str = ""
    headers: Pairs = ()
    is_on: bool = True

    @property
    def target(self) -> str:
        """The command line or the address, as people read it."""
        return self.url or shlex.join((self.command, *self.args))

    @property
    def identity(self) -> str:
        """A digest of the program or address that is run or asked, to which leave to call tools is bound.

        Headers are left out: a key that is renewed makes no other server.
        """
        parts = [self.command, self.args, self.env, self.cwd, self.url]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def is_remote(self) -> bool:
        if not self.url:
            return False
        return not is_loopback(urlsplit(self.url).hostname or "")


def is_loopback(host: str) -> bool:
    """Returns True if a host is this machine, by its name or address alone."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def read_servers(raw: Any, name: str = "the declaration") -> tuple[tuple[ToolServer, ...], tuple[str, ...]]:
    """Reads declarations from JSON.

    Args:
        raw: the whole object, or what stands in ``mcpServers``.
        name: of the source, for messages.

    Returns:
        The servers, and a sentence for each entry that is none.

    Raises:
        SafelightError: there are no declarations, or too many.
    """
    entries = raw if isinstance(raw, Mapping) else None
    for key in _LISTS:
        if entries is not None and isinstance(entries.get(key), Mapping):
            entries = entries[key]
            break
    if entries is None or not all(isinstance(entry, Mapping) for entry in entries.values()):
        raise SafelightError(f'{name} declares no servers; write {{"mcpServers": {{"NAME": {{"command": "…"}}}}}}')
    if len(entries) > MAX_SERVERS:
        raise SafelightError(f"{name} declares {len(entries)} servers, and {MAX_SERVERS} are the most")
    servers, problems = list[ToolServer](), list[str]()
    for own_name, entry in entries.items():
        try:
            servers.append(_read_server(own_name, entry))
        except SafelightError as error:
            problems.append(str(error))
    return tuple(servers), tuple(problems)


def servers_to_json(servers: Iterable[ToolServer]) -> dict[str, Any]:
    """Returns declarations as JSON, in the notation of ``read_servers``."""
    return {"mcpServers": {server.name: _as_json(server) for server in servers}}


def _as_json(server: ToolServer) -> dict[str, Any]:
    entry: dict[str, Any] = {"url": server.url} if server.url else {"command": server.command}
    entry |= {"args": list(server.args)} if server.args else {}
    entry |= {name: dict(pairs) for name, pairs in (("env", server.env), ("headers", server.headers)) if pairs}
    entry |= {"cwd": server.cwd} if server.cwd else {}
    return entry | ({} if server.is_on else {"disabled": True})


Line = Annotated[str, text(MAX_VALUE_CHARACTERS, r"[^\0]*")]
Lines = Annotated[dict[Line, Line], many(MAX_ENTRIES)]


@dataclass(frozen=True)
class _Entry:
    """An entry as people write it."""

    command: Line = ""
    args: Annotated[tuple[Line, ...], many(MAX_ENTRIES)] = ()
    env: Lines = field(default_factory=dict)
    cwd: Line = ""
    url: Line = ""
    headers: Lines = field(default_factory=dict)
    disabled: Any = False


def _read_server(name: str, entry: Mapping[str, Any]) -> ToolServer:
    if not _NAME.fullmatch(name):
        raise SafelightError(f"a server is called {quoted(name)}; give it a name of 1 to 64 characters")
    form = read(_Entry, entry, f"the server {quoted(name)}", is_inner=True)
    if bool(form.command) == bool(form.url):
        raise SafelightError(f"the server {quoted(name)} needs a command or a url, and not both")
    if any(not _HEADER.fullmatch(key) or not value.isprintable() for key, value in form.headers.items()):
        raise SafelightError(f"a header of {quoted(name)} has a sign that no header may have")
    if form.url:
        _check_address(name, form.url)
    env, headers = tuple(form.env.items()), tuple(form.headers.items())
    return ToolServer(name, form.command, form.args, env, form.cwd, form.url, headers, form.disabled is not True)


def _check_address(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_one = False
    if not is_one:
        raise SafelightError(f"the url of {quoted(name)} is {quoted(url)}; write http://… or https://…")
