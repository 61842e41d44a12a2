"""Stores a secret, such as a token or a key, in the system's keyring, or else for this session. Knows no widgets.

Reading or writing may wait for the user to unlock the keyring, so it belongs on a separate thread.
"""

from __future__ import annotations

import threading
from typing import Literal

Place = Literal["keyring", "session", "nowhere"]
SERVICE = "Safelight"
HUB_TOKEN, SERVER_KEY = "hub access token", "local server key"  # names in the keyring


class Secret:
    """One secret, known by its name in the keyring. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._session = ""  # the secret, if no keyring stored it

    def read(self) -> str:
        """Returns the secret; empty if there is none."""
        with self._lock:
            return self._session or _from_keyring(self._name)

    def write(self, secret: str) -> Place:
        """Stores a secret; an empty one removes it.

        Returns:
            The place where it is stored: "session" is until the app ends, if no keyring stored it.
        """
        with self._lock:
            kept = _to_keyring(self._name, secret)
            self._session = "" if kept else secret
            return "nowhere" if not secret else "keyring" if kept else "session"


def _from_keyring(name: str) -> str:
    try:
        import keyring  # 140 modules, and only once a secret is asked for; its backends may fail to load

        return keyring.get_password(SERVICE, name) or ""
    except Exception:  # backends raise many types: no bus, no service, locked, denied
        return ""


def _to_keyring(name: str, secret: str) -> bool:
    try:
        import keyring  # as above

        if secret:
            keyring.set_password(SERVICE, name, secret)
        else:
            try:
                keyring.delete_password(SERVICE, name)
            except keyring.errors.PasswordDeleteError:
                return True  # there was none
        return (keyring.get_password(SERVICE, name) or "") == secret  # some backends accept it and store nothing
    except Exception:
        return not secret
