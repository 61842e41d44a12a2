"""Access to models on other machines: the servers' API keys, permission to connect, and titles."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import urlsplit

from app.system.i18n import tr
from app.system.secret import Place, Secret
from engine.model_files import model_title
from engine.service import LoadedModel, is_remote
from engine.tools.declared import is_loopback


class RemoteAccess:
    """API keys of servers, and permission to connect. May be used from any thread.

    ``keyed`` are the origins that have a key; the keyring is read only for these.
    """

    def __init__(self) -> None:
        self.is_offline = False
        self.keyed: frozenset[str] = frozenset()
        self._secrets: dict[str, Secret] = {}
        self._lock = threading.Lock()

    def is_allowed(self, host: str) -> bool:
        """True if a host may be contacted; offline, only this machine."""
        return not self.is_offline or is_loopback(host)

    def reaches(self, path_or_id: str) -> bool:
        """True if the model with this path or id may be used: it is local, or its host may be contacted."""
        if not self.is_offline or not is_remote(path_or_id):
            return True
        try:
            return self.is_allowed(urlsplit(path_or_id).hostname or "")
        except ValueError:  # an invalid address cannot be loaded
            return False

    def key_of(self, origin: str) -> str | None:
        """Returns the key of a server; None if it has none. May wait for the keyring."""
        return self._secret(origin).read() or None if origin in self.keyed else None

    def keep(self, origin: str, key: str) -> Place:
        """Stores the key of a server, or removes it if it is empty. Returns its place. May wait for the keyring."""
        place = self._secret(origin).write(key)
        self.keyed = self.keyed | {origin} if key else self.keyed - {origin}
        return place

    def _secret(self, origin: str) -> Secret:
        with self._lock:
            return self._secrets.setdefault(origin, Secret(f"key of {origin}"))


def only_text(model: LoadedModel) -> str:
    """Returns a sentence if a remote model shows no canvas; empty if it shows one or is local."""
    if model.capabilities.steps or not is_remote(model.path_or_id):
        return ""
    return tr("This server only sends text, so there is no canvas.")


def title_of_path(path: str) -> str:
    """Returns the title of a model without a known name: by where it lies, or its remote title."""
    return remote_title(path) if is_remote(path) else model_title(Path(path))


def remote_title(path: str) -> str:
    where, _, model = path.partition("#")
    host = where.partition("://")[2].partition("/")[0]
    return tr("{model} at {host}", model=model.rpartition("/")[2] or model, host=host) if model else host
