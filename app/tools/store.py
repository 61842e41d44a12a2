"""Stores the declared tool servers and the user's leave in one JSON file of the data folder. Knows no Qt.

The servers stand there in the notation of other programs, so that the file can be written by hand. Leave is bound to
what is run or asked (``ToolServer.identity``), not to a name that a file may give to another program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from app.system.folders import tighten
from app.system.i18n import tr
from app.system.locks import locked
from engine import SafelightError
from engine.declared import Form, plain, read
from engine.files import parse_json, private_folder, read_bytes, write_text
from engine.tools.declared import MAX_DECLARATION_BYTES, MAX_SERVERS, ToolServer, read_servers, servers_to_json
from engine.tools.tool import Tool

FILE = "tools.json"
MAX_NAMES = 4_096  # tools in one of the lists of leave


Names = Mapping[str, frozenset[str]]
"""Names of tools by the identity of their server."""


def _read_names(raw: Any) -> Names:
    by_identity = read(dict[str, tuple[str, ...]], raw, "names of tools")
    return {identity: frozenset(names[:MAX_NAMES]) for identity, names in by_identity.items()}


def _write_names(names: Names) -> dict[str, list[str]]:
    return {identity: sorted(tools) for identity, tools in sorted(names.items())}


Stored = Annotated[Names, Form(_read_names, _write_names)]


@dataclass(frozen=True)
class Leave:
    """The tools that are offered, and those that may be called without a question.

    Args:
        off: tools that models are not offered.
        always: tools that may be called without a question.
        reads: tools of which their server says that they change nothing may be called without a question.
    """

    off: Stored = field(default_factory=dict)
    always: Stored = field(default_factory=dict)
    reads: bool = False

    def is_offered(self, server: ToolServer, tool: str) -> bool:
        return tool not in self.off.get(server.identity, ())

    def is_free(self, server: ToolServer, tool: Tool) -> bool:
        """Returns True if a tool may be called without a question."""
        return tool.name in self.always.get(server.identity, ()) or (self.reads and tool.is_read_only)

    def offering(self, server: ToolServer, tool: str, *, offers: bool) -> Leave:
        """Returns a copy by which a tool is offered or not."""
        return replace(self, off=_with(self.off, server, tool, has=not offers))

    def granting(self, server: ToolServer, tool: str, *, always: bool) -> Leave:
        """Returns a copy by which a tool may be called without a question or not."""
        return replace(self, always=_with(self.always, server, tool, has=always))

    def only(self, known: Set[str]) -> Leave:
        """Returns the leave of the servers with these identities alone."""
        off, always = ({one: leave[one] for one in leave if one in known} for leave in (self.off, self.always))
        return replace(self, off=off, always=always)


def _with(names: Names, server: ToolServer, tool: str, *, has: bool) -> Names:
    own = names.get(server.identity, frozenset())
    changed = own | {tool} if has else own - {tool}
    others = {identity: tools for identity, tools in names.items() if identity != server.identity}
    return others | ({server.identity: changed} if changed else {})


_Found = tuple[tuple[ToolServer, ...], Leave]
_NOTHING: _Found = ((), Leave())


class ToolStore:
    """The declared servers and the leave; ``problem`` is a sentence about a fault of the file, empty if there is none.

    Several windows may write the file: each reads it again when it has changed. A file that cannot be read is never
    written over: changes are refused until it is repaired or moved.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.servers: tuple[ToolServer, ...] = ()
        self.leave = Leave()
        self.problem = ""
        self._seen: object = None  # the state of the file that was last read
        self.refresh()

    def refresh(self) -> bool:
        """Reads the file again if it has changed. Returns True if servers or leave are others now."""
        seen = self._stat()
        if seen == self._seen:
            return False
        before, self._seen = (self.servers, self.leave), seen
        stored = self._read()
        if not self.problem and stored is None:  # removed: the next change writes what is here
            return False
        self.servers, self.leave = stored or _NOTHING
        return before != (self.servers, self.leave)

    def write(self, servers: tuple[ToolServer, ...] | None = None, leave: Leave | None = None) -> None:
        """Stores other servers or another leave, made of those that ``refresh`` has read.

        The leave of servers that are not declared any more is kept here alone, for their return.

        Raises:
            SafelightError: they cannot be written; the previous ones are kept.
        """
        new, may = self.servers if servers is None else servers, self.leave if leave is None else leave
        try:
            private_folder(self.path.parent)
            with locked(self.path.with_name(f"{FILE}.lock")):
                self._read()
                if self.problem:
                    raise SafelightError(self.problem)
                known = {server.identity for server in new}
                write_text(self.path, _written(new, may.only(known)), private=True)
                self._seen = self._stat()
        except (OSError, ValueError) as error:
            reason = ((error.strerror if isinstance(error, OSError) else None) or type(error).__name__).lower()
            raise SafelightError(
                tr("The tools cannot be saved in {folder}: {reason}.", folder=str(self.path.parent), reason=reason)
            ) from error
        self.servers, self.leave = new, may

    def _stat(self) -> object:
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> _Found | None:
        """Returns what the file holds, or None if there is none or it has a fault, which ``problem`` says."""
        self.problem = ""
        try:
            data = read_bytes(self.path, MAX_DECLARATION_BYTES)
            stored, self.problem = _parsed(data.decode("utf-8-sig"), str(self.path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, SafelightError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{self.path} cannot be read: {error.strerror or error}"
            elif isinstance(error, UnicodeDecodeError):
                reason = f"{self.path} is not UTF-8 text"
            self.problem = tr(
                "{reason}. Repair or move {path} to change the tools.", reason=reason, path=str(self.path)
            )
            return None
        tighten(self.path)
        return stored


def _parsed(text: str, name: str) -> tuple[_Found, str]:
    """Returns what a file's text holds, and its faults in a sentence each."""
    raw = parse_json(text, name)
    servers, problems = read_servers(raw, name)
    return (servers, _read_leave(raw.get("leave"))), " ".join(f"{problem}." for problem in problems)


def _written(servers: tuple[ToolServer, ...], leave: Leave) -> str:
    """Returns the text of a file.

    Raises:
        SafelightError: there is more than is read.
    """
    if len(servers) > MAX_SERVERS:
        raise SafelightError(tr("There are {count} servers of tools; at most {most} are kept.", count=len(servers),
                                most=MAX_SERVERS))  # fmt: skip
    if len({server.name for server in servers}) < len(servers):
        raise SafelightError(tr("Two servers of tools have one name. Choose another."))
    text = json.dumps(servers_to_json(servers) | {"leave": plain(leave)}, indent=2, ensure_ascii=False) + "\n"
    try:
        is_read = len(text.encode()) <= MAX_DECLARATION_BYTES and _parsed(text, FILE)[0] == (servers, leave)
    except SafelightError:
        is_read = False
    if not is_read:
        raise SafelightError(tr("The servers of tools are too long to save. Remove one, or shorten what it is given."))
    return text


def _read_leave(raw: Any) -> Leave:
    """Reads the leave; what is not understood gives none."""
    try:
        return read(Leave, raw or {}, "leave")
    except SafelightError:
        return Leave()
