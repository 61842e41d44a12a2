"""A run as far as it has been told: the trace grows in the engine's thread, ahead of what a pace has let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine import Event


class Told:
    """A trace to look at with its first ``count`` events only, until ``tell_all``; else it is the trace itself."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.count = 0
        self._all = False

    @property
    def events(self) -> Sequence[Event]:
        """What has been told, in order."""
        found: Sequence[Event] = self.trace.events
        return found if self._all else found[: self.count]

    @property
    def entries(self) -> Sequence[Any]:
        """The same without their payloads."""
        found: Sequence[Any] = self.trace.entries
        return found if self._all else found[: self.count]

    def tell(self) -> None:
        """One event more."""
        self.count += 1

    def tell_all(self) -> None:
        """The run is over: nothing is held back any more."""
        self._all = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trace, name)
