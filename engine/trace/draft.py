"""The answer so far, as tokens: what a run has written when it is looked at, stopped or cut short."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from engine.events import CanvasCommitted, Event, GenerationFinished, StepFinished
from engine.types import Tokens


class Draft:
    """The committed blocks, and the best guess for the one under way; ``ends`` are the tokens that end a text."""

    def __init__(self, ends: Collection[int]) -> None:
        self._ends = ends
        self.committed: list[int] = []
        self._argmax: Tokens | None = None

    @staticmethod
    def of(events: Iterable[Event], ends: Collection[int] = ()) -> Draft:
        """The draft after these events, which begin a run."""
        draft = Draft(ends)
        for event in events:
            draft.fold(event)
        return draft

    def fold(self, event: Event) -> None:
        """Take in the next event."""
        if isinstance(event, StepFinished):
            self._argmax = event.argmax_canvas
        elif isinstance(event, CanvasCommitted):
            self.committed += event.tokens[: event.text_length].tolist()
            self._argmax = None
        elif isinstance(event, GenerationFinished):
            self.committed = event.tokens.tolist()  # a fork may have left out blocks

    def tokens(self) -> list[int]:
        """All of it, up to the first end token of the block under way."""
        tokens = list(self.committed)
        if self._argmax is not None:
            ends = np.flatnonzero(np.isin(self._argmax, list(self._ends)))
            tokens += self._argmax[: ends[0] if len(ends) else None].tolist()
        return tokens
