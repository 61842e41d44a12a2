"""The newest request of each client to the routes of editors: one that asks for something else ends the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Asked:
    """The requests of a client that ask for the same, as editors ask for several answers at a time."""

    what: object
    ends: list[Callable[[], None]] = field(default_factory=list)


class NewestRequests:
    """Holds, by client, how its running requests are ended. For the server's own thread."""

    def __init__(self) -> None:
        self._of: dict[str, _Asked] = {}

    @contextmanager
    def taking_over(self, client: str, what: object, end: Callable[[], None]) -> Iterator[None]:
        """Ends the client's earlier requests unless they ask for the same; holds this one until the context is left.

        Args:
            what: all that makes it the same request.
            end: ends this request, if another one follows.
        """
        asked = self._of.get(client)
        if asked is None or asked.what != what:
            for earlier in () if asked is None else tuple(asked.ends):
                earlier()
            asked = self._of[client] = _Asked(what)
        asked.ends.append(end)
        try:
            yield
        finally:
            asked.ends.remove(end)
            if not asked.ends and self._of.get(client) is asked:
                del self._of[client]
