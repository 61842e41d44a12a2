"""The fields of a server's form, as plain data: what is wrong with them, and the server they declare."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from app.design.text_field import LONGEST_LINE, fits
from app.system.i18n import tr
from app.tools.lines import join_command, join_pairs, split_command, split_pairs
from app.tools.words import sentence
from engine import SafelightError
from engine.tools.declared import ToolServer, read_servers


@dataclass(frozen=True)
class ServerFields:
    """The texts of the form.

    Args:
        is_address: the form is that of an address, and not of a program.
        env, headers: one pair a line.
    """

    name: str = ""
    is_address: bool = False
    command: str = ""
    env: str = ""
    cwd: str = ""
    url: str = ""
    headers: str = ""


def fields_of(server: ToolServer) -> ServerFields:
    command = join_command((server.command, *server.args)) if server.command else ""
    env, headers = join_pairs(server.env, "="), join_pairs(server.headers, ":")
    return ServerFields(server.name, bool(server.url), command, env, server.cwd, server.url, headers)


def fits_form(server: ToolServer) -> bool:
    """True if the form can show a server and declares the same one again."""
    fields = fields_of(server)
    lines = (fields.name, fields.command, fields.cwd, fields.url)
    if not all(len(line) <= LONGEST_LINE and (line.isprintable() or not line) for line in lines):
        return False
    if not all(fits(text) and "\u00a0" not in text for text in (fields.env, fields.headers)):
        return False
    try:
        return replace(read_fields(fields), is_on=server.is_on) == server
    except SafelightError:
        return False


def read_fields(fields: ServerFields, taken: Collection[str] = ()) -> ToolServer:
    """Returns the server that the fields declare.

    Args:
        taken: the names of the other servers.

    Raises:
        SafelightError: one sentence about what is wrong.
    """
    name = fields.name.strip()
    if not name:
        raise SafelightError(tr("Give the server a name."))
    if name in taken:
        raise SafelightError(tr("There is a server of this name already. Choose another name."))
    entry = _address(fields) if fields.is_address else _program(fields)
    servers, problems = read_servers({"mcpServers": {name: entry}}, tr("the form"))
    if problems:
        raise SafelightError(sentence(problems[0]))
    return servers[0]


def _program(fields: ServerFields) -> dict[str, Any]:
    parts = split_command(fields.command)
    if not parts or not parts[0]:
        raise SafelightError(tr("Write the command that starts the program, such as npx -y @example/server."))
    env = dict(split_pairs(fields.env, "=", tr("variables")))
    return {"command": parts[0], "args": list(parts[1:]), "env": env, "cwd": fields.cwd.strip()}


def _address(fields: ServerFields) -> dict[str, Any]:
    url = fields.url.strip()
    if not url:
        raise SafelightError(tr("Write the address of the server, such as https://tools.example/mcp."))
    return {"url": url, "headers": dict(split_pairs(fields.headers, ":", tr("headers")))}
