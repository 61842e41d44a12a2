"""A run as far as it has arrived: the trace grows in the engine's thread, ahead of what a pace has let through."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from app.state.run.canvas import Tokens
from engine import CanvasCommitted, Event, Recording, Reply, TraceHeader
from engine.pictures import Picture
from engine.trace import Entry


class RunView(Recording):
    """The first ``count`` events of a recording, until ``show_all``; from then on all of it, and what it grows by.

    Those that a fork has copied from its source, the blocks before its change, are there from the start.
    What is not an event is the recording's own: the answer, too, is that of all that was recorded.
    """

    def __init__(self, trace: Recording) -> None:
        self.trace = trace
        self.path = trace.path
        self.count = _copied(trace)
        self._is_whole = False

    def advance(self) -> None:
        """Show one event more."""
        self.count += 1
        self.path = self.trace.path  # which may be given up on the way

    def coming(self, block: int) -> Tokens | None:
        """(T,) the text of a block that is computed to its end and not shown yet; None where it is not."""
        for place in range(self.count, len(self.trace.entries)):
            entry = self.trace.entries[place]
            if entry.kind == "commit" and entry.block == block:
                event = self.trace.event(place)
                return event.tokens[: event.text_length] if isinstance(event, CanvasCommitted) else None
        return None

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
    def pictures(self) -> tuple[Picture, ...]:
        return self.trace.pictures

    @property
    def notice(self) -> str:
        return self.trace.notice

    @property
    def failure(self) -> str:
        return self.trace.failure

    def save(self, path: Path) -> None:
        self.trace.save(path)


def _copied(trace: Recording) -> int:
    """How many events at the beginning of a recording are not of its own run."""
    parent = trace.header.parent
    if parent is None or not trace.header.changes:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda entry: 0 <= entry.block < parent.block, trace.entries))
