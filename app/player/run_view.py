"""A run as far as it has arrived: the trace grows in the engine's thread, ahead of what a pace has let through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine import Event, Recording, Reply, TraceHeader
from engine.trace import Entry


class RunView(Recording):
    """The first ``count`` events of a recording, until ``show_all``; from then on all of it, and what it grows by.

    What is not an event is the recording's own: the answer, too, is that of all that was recorded.
    """

    def __init__(self, trace: Recording) -> None:
        self.trace = trace
        self.path = trace.path
        self.count = 0
        self._is_whole = False

    def advance(self) -> None:
        """Show one event more."""
        self.count += 1

    def show_all(self) -> None:
        """The run is over: nothing is held back any more."""
        self._is_whole = True

    @property
    def entries(self) -> Sequence[Entry]:
        return self.trace.entries if self._is_whole else self.trace.entries[: self.count]

    def event(self, index: int) -> Event:
        count = len(self.trace.entries)
        return self.trace.event(range(count if self._is_whole else min(count, self.count))[index])

    @property
    def header(self) -> TraceHeader:
        return self.trace.header

    def piece(self, token: int) -> str:
        return self.trace.piece(token)

    def is_special(self, token: int) -> bool:
        return self.trace.is_special(token)

    def reply(self, block: int | None = None) -> Reply:
        return self.trace.reply(block)

    @property
    def notice(self) -> str:
        return self.trace.notice

    @property
    def failure(self) -> str:
        return self.trace.failure

    def save(self, path: Path) -> None:
        self.trace.save(path)
