"""The fields of a server's form, as plain data: what is wrong with them, and the server they declare. No Qt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from app.design.text_field import LONGEST_LINE, fits
from app.system.i18n import tr
from app.tools.words import sentence
from engine import SafelightError
from engine.tools.declared import Pairs, ToolServer, read_servers

IS_WINDOWS = sys.platform == "win32"


def split_command(line: str, *, is_windows: bool = IS_WINDOWS) -> tuple[str, ...]:
    """Splits a command line as a shell does; on Windows a backslash is a sign like any other.

    Raises:
        SafelightError: a quotation mark is not closed.
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.commenters = ""
    if is_windows:
        words.escape = ""
    try:
        return tuple(words)
    except ValueError:
        raise SafelightError(tr("A quotation mark in the command line is not closed.")) from None


def join_command(parts: Iterable[str], *, is_windows: bool = IS_WINDOWS) -> str:
    """Returns the command line that ``split_command`` splits into these parts."""
    if not is_windows:
        return shlex.join(parts)
    return " ".join(_quoted(part) for part in parts)


def _quoted(part: str) -> str:
    if part and not any(sign.isspace() or sign in "'\"" for sign in part):
        return part
    return '"' + part.replace('"', '"\'"\'"') + '"'


def split_pairs(text: str, sign: str, what: str) -> Pairs:
    """Reads pairs, one a line; empty lines count for nothing.

    Args:
        sign: what separates name and value, "=" or ":".
        what: the pairs, for messages.

    Raises:
        SafelightError: a line has no such sign, or a name stands twice.
    """
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        name, separator, value = line.partition(sign)
        name, value = name.strip(), value.strip() if sign == ":" else value
        if not separator or not name:
            raise SafelightError(
                tr("Line {number} of the {what} needs a name, then {sign}, then a value.", number=number, what=what,
                   sign=sign)
            )  # fmt: skip
        if name in pairs:
            raise SafelightError(tr("The {what} name {name} twice.", what=what, name=name[:60]))
        pairs[name] = value
    return tuple(pairs.items())


def join_pairs(pairs: Pairs, sign: str) -> str:
    """Returns the lines that ``split_pairs`` reads."""
    return "\n".join(f"{name}{sign}{' ' if sign == ':' else ''}{value}" for name, value in pairs)


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
