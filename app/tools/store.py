"""Stores the declared tool servers and the user's leave in one JSON file of the data folder. Knows no Qt.

The servers stand there in the notation of other programs, so that the file can be written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.system.folders import tighten
from app.system.i18n import tr
from app.tools.leave import Leave, Names
from engine import SafelightError
from engine.files import parse_json, private_folder, read_bytes, write_text
from engine.tools.declared import MOST_BYTES, MOST_SERVERS, ToolServer, read_servers, servers_to_json

FILE = "tools.json"
MOST_NAMES = 4_096  # tools in one of the lists of leave


class ToolStore:
    """The declared servers and the leave; ``problem`` is a sentence about a fault of the file, empty if there is none.

    A file that cannot be read is never written over: changes are refused until it is repaired or moved.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.servers: tuple[ToolServer, ...] = ()
        self.leave = Leave()
        self.signed_in: frozenset[str] = frozenset()  # identities that have tokens in the keyring
        self.problem = self._locked = ""
        try:
            self._read()
        except SafelightError as error:
            self.problem = self._locked = tr(
                "{reason}. Repair or move {path} to change the tools.", reason=str(error), path=str(self.path)
            )

    def write(
        self,
        servers: tuple[ToolServer, ...] | None = None,
        leave: Leave | None = None,
        signed_in: frozenset[str] | None = None,
    ) -> None:
        """Stores other servers, another leave or other sign-ins; what is not given stays.

        Raises:
            SafelightError: they cannot be written; the previous ones are kept.
        """
        if self._locked:
            raise SafelightError(self._locked)
        new, may = self.servers if servers is None else servers, self.leave if leave is None else leave
        if len(new) > MOST_SERVERS:
            raise SafelightError(tr("There are {count} servers of tools; at most {most} are kept.", count=len(new),
                                    most=MOST_SERVERS))  # fmt: skip
        if len({server.name for server in new}) < len(new):
            raise SafelightError(tr("Two servers of tools have one name. Choose another."))
        known = {server.identity for server in new}
        signed = (self.signed_in if signed_in is None else signed_in) & known
        leave_json = {"off": _names_json(may.off, known), "always": _names_json(may.always, known), "reads": may.reads}
        try:
            private_folder(self.path.parent)
            whole = servers_to_json(new) | {"leave": leave_json} | ({"signed_in": sorted(signed)} if signed else {})
            text = json.dumps(whole, indent=2, ensure_ascii=False)
            write_text(self.path, text + "\n", private=True)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise SafelightError(
                tr("The tools cannot be saved in {folder}: {reason}.", folder=str(self.path.parent), reason=reason)
            ) from error
        self.servers, self.leave, self.signed_in = new, may, signed

    def _read(self) -> None:
        try:
            data = read_bytes(self.path, MOST_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SafelightError(f"{self.path} cannot be read: {error.strerror or error}") from error
        try:
            raw = parse_json(data.decode("utf-8-sig"), str(self.path))
        except UnicodeDecodeError as error:
            raise SafelightError(f"{self.path} is not UTF-8 text") from error
        self.servers, problems = read_servers(raw, str(self.path))
        self.leave = _read_leave(raw.get("leave"))
        self.signed_in = _read_signed(raw.get("signed_in"), self.servers)
        self.problem = " ".join(f"{problem}." for problem in problems)
        self._locked = self.problem
        tighten(self.path)


def _names_json(names: Names, known: set[str]) -> dict[str, list[str]]:
    """Returns the names of the servers that are still declared."""
    return {identity: sorted(found) for identity, found in sorted(names.items()) if identity in known}


def _read_signed(raw: Any, servers: tuple[ToolServer, ...]) -> frozenset[str]:
    listed = raw if isinstance(raw, list) else []
    return frozenset(server.identity for server in servers if server.identity in listed)


def _read_leave(raw: Any) -> Leave:
    """Reads the leave; whatever is not understood gives none."""
    if not isinstance(raw, Mapping):
        return Leave()
    return Leave(_read_names(raw.get("off")), _read_names(raw.get("always")), raw.get("reads") is True)


def _read_names(raw: Any) -> Names:
    if not isinstance(raw, Mapping):
        return {}
    return {
        identity: frozenset(name for name in names[:MOST_NAMES] if isinstance(name, str))
        for identity, names in raw.items()
        if isinstance(names, list)
    }
