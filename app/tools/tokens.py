"""Stores what tool servers give at a sign-in, in the system's keyring, or else for this session. Knows no Qt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from app.system.secret import Place, Secret

PIECE = 1_000  # characters; Windows takes 1,280 of a secret
MOST_PIECES = 99


class KeyringTokens:
    """The tokens of servers, by their identities. The keyring is read only for those that have some.

    Args:
        kept: identities that have tokens in the keyring.
        changed: called when a server has got or lost its tokens, in the thread that wrote them.
    """

    def __init__(self, kept: Iterable[str], changed: Callable[[], None] = lambda: None) -> None:
        self._places: dict[str, Place] = dict.fromkeys(kept, "keyring")
        self._changed = changed
        self._secrets: dict[tuple[str, int], Secret] = {}
        self._lock = threading.Lock()

    @property
    def kept(self) -> frozenset[str]:
        """The identities that have tokens in the keyring."""
        return frozenset(identity for identity, place in self._places.copy().items() if place == "keyring")

    def place_of(self, identity: str) -> Place:
        return self._places.get(identity, "nowhere")

    def read(self, identity: str) -> str:
        """Returns the text of a server; empty if there is none."""
        with self._lock:
            if identity not in self._places:
                return ""
            count, text = self._first(identity)
            return text + "".join(self._secret(identity, number).read() for number in range(1, count))

    def write(self, identity: str, text: str) -> None:
        """Stores the text of a server in pieces; an empty one removes it."""
        with self._lock:
            before = self._first(identity)[0] if identity in self._places else 0
            pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
            places = set[Place]()
            for number in range(max(before, len(pieces))):
                piece = pieces[number] if number < len(pieces) else ""
                place = self._secret(identity, number).write(
                    f"{len(pieces)}:{piece}" if piece and not number else piece
                )
                places |= {place} if piece else set()
            if pieces:
                self._places[identity] = "session" if "session" in places else "keyring"
            else:
                self._places.pop(identity, None)
        self._changed()

    def _first(self, identity: str) -> tuple[int, str]:
        """Returns the number of pieces, and the first."""
        count, _, text = self._secret(identity, 0).read().partition(":")
        return (min(int(count), MOST_PIECES), text) if count.isdecimal() and len(count) < 4 else (0, "")

    def _secret(self, identity: str, number: int) -> Secret:
        return self._secrets.setdefault((identity, number), Secret(f"tools {identity} {number}"))
