"""A view of a run up to the delivered events; the trace itself grows ahead of them in the engine's thread."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from app.state.run.canvas import Tokens
from engine import CanvasCommitted, Event, Recording, Reply, TraceHeader
from engine.pictures import Picture
from engine.trace import Entry


class RunView(Recording):
    """The first ``count`` events of a recording; after ``show_all`` all of them, including later ones.

    Events that a fork has copied from its source, those of the blocks before its change, are included from the start.
    Everything else, such as the reply, is that of the whole recording.
    """

    def __init__(self, trace: Recording) -> None:
        self.trace = trace
        self.path = trace.path
        self.count = _copied(trace)
        self._is_whole = False

    def advance(self) -> None:
        self.count += 1
        self.path = self.trace.path  # becomes None if writing the file fails during the run

    def coming(self, block: int) -> Tokens | None:
        """Returns the text (T,) of a block that is already committed but not shown yet; else None."""
        for place in range(self.count, len(self.trace.entries)):
            entry = self.trace.entries[place]
            if entry.kind == "commit" and entry.block == block:
                event = self.trace.event(place)
                return event.tokens[: event.text_length] if isinstance(event, CanvasCommitted) else None
        return None

    def show_all(self) -> None:
        """Shows all events, after the run is over."""
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
    """Returns the number of events at the beginning of a recording that were copied from its source."""
    parent = trace.header.parent
    if parent is None or not trace.header.changes:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda entry: 0 <= entry.block < parent.block, trace.entries))
