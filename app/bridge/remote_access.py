"""What the engine asks before it reaches a server elsewhere: the key to it, and whether it may be reached at all."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import urlsplit

from app.system.i18n import tr
from app.system.secret import Place, Secret
from engine.service import LoadedModel, is_remote


class RemoteAccess:
    """From any thread. ``keyed`` are the origins with a key; the keyring is asked for those alone."""

    def __init__(self) -> None:
        self.is_offline = False
        self.keyed: frozenset[str] = frozenset()
        self._secrets: dict[str, Secret] = {}
        self._lock = threading.Lock()

    def is_allowed(self, host: str) -> bool:
        """Whether a host may be asked: offline, this machine alone."""
        from engine.service.remote.address import is_loopback  # what speaks HTTP; a start does without

        return not self.is_offline or is_loopback(host)

    def reaches(self, path_or_id: str) -> bool:
        """Whether a model may be used, by what loads it: all but those on machines that may not be asked."""
        if not self.is_offline or not is_remote(path_or_id):
            return True
        try:
            return self.is_allowed(urlsplit(path_or_id).hostname or "")
        except ValueError:  # no such address can be loaded
            return False

    def key_of(self, origin: str) -> str | None:
        """The key to a server; None where there is none. May wait for the keyring."""
        return self._secret(origin).read() or None if origin in self.keyed else None

    def keep(self, origin: str, key: str) -> Place:
        """Keep the key to a server, or remove it where it is empty; says where it is. May wait for the keyring."""
        place = self._secret(origin).write(key)
        self.keyed = self.keyed | {origin} if key else self.keyed - {origin}
        return place

    def _secret(self, origin: str) -> Secret:
        with self._lock:
            return self._secrets.setdefault(origin, Secret(f"key of {origin}"))


def only_text(model: LoadedModel) -> str:
    """Why there is no canvas with a model elsewhere, in a sentence; empty where there is one, or it is here."""
    if model.capabilities.steps or not is_remote(model.path_or_id):
        return ""
    return tr("This remote engine only answers with text.")


def title_of_path(path: str) -> str:
    """What a model is called that is not known by name: its folder's name, or where it is elsewhere."""
    return remote_title(path) if is_remote(path) else Path(path).name


def remote_title(path: str) -> str:
    """What a model elsewhere is called, by the address that it is loaded by."""
    where, _, model = path.partition("#")
    host = where.partition("://")[2].partition("/")[0]
    return tr("{model} at {host}", model=model.rpartition("/")[2] or model, host=host) if model else host
