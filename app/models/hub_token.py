"""The access token of the hub, in the system's keyring, or else for this session only. Knows no widgets.

Reading or writing may wait for the user to unlock the keyring, so it belongs on a thread of its own.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Literal

Place = Literal["keyring", "session", "nowhere"]
SERVICE, NAME = "Safelight", "hub access token"


class TokenStore:
    """One token. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session = ""  # the token, if no keyring stored it

    def read(self) -> str:
        """The token; empty if there is none."""
        with self._lock:
            return self._session or _from_keyring()

    def write(self, token: str) -> Place:
        """Store a token; an empty one removes it.

        Returns:
            Where it is stored: "session" is until the app ends, if no keyring stored it.
        """
        with self._lock:
            kept = _to_keyring(token)
            self._session = "" if kept else token
            return "nowhere" if not token else "keyring" if kept else "session"


def _keyring() -> ModuleType:
    import keyring  # 140 modules, and only once the page or a download asks; its backends may fail to load

    return keyring


def _from_keyring() -> str:
    try:
        return _keyring().get_password(SERVICE, NAME) or ""
    except Exception:  # backends raise many types: no bus, no service, locked, denied
        return ""


def _to_keyring(token: str) -> bool:
    try:
        keyring = _keyring()
        if token:
            keyring.set_password(SERVICE, NAME, token)
        else:
            try:
                keyring.delete_password(SERVICE, NAME)
            except keyring.errors.PasswordDeleteError:
                return True  # there was no token
        return (keyring.get_password(SERVICE, NAME) or "") == token  # some backends accept it and store nothing
    except Exception:
        return not token
