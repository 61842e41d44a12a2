"""The answer so far: what a run has written when it is viewed, stopped or interrupted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
    TextArrived,
)
from engine.text.reply import Reply
from engine.types import Tokens


class Draft:
    """The committed blocks, and the best guess for the block that is running; ``ends`` are the tokens that end a text.

    For a run without steps it is the text that has arrived. For a decision it is the labels of its last read, as they
    stand on the canvas, and at the end those of all reads.
    """

    def __init__(self, ends: Collection[int]) -> None:
        self._ends = ends
        self.committed: list[int] = []
        self._argmax: Tokens | None = None
        self._filler: int | None = None  # of the running block; positions that hold it have no guess
        self._is_read = False  # the current canvas is a decision's
        self._texts: dict[bool, list[str]] = {False: [], True: []}  # True: thinking; False: answer

    @staticmethod
    def from_events(events: Iterable[Event], ends: Collection[int] = ()) -> Draft:
        """Returns the draft after these events, from the run's beginning."""
        draft = Draft(ends)
        for event in events:
            draft.fold(event)
        return draft

    def fold(self, event: Event) -> None:
        """Applies the next event."""
        if isinstance(event, CanvasStarted):
            self._filler = event.filler
        elif isinstance(event, StepFinished):
            argmax = event.argmax_canvas
            self._argmax = argmax if self._filler is None else argmax[argmax != self._filler]
        elif isinstance(event, PrefixPinned):
            behind = () if self._argmax is None else self._argmax[event.pinned :]
            self._argmax = np.concatenate([event.canvas[: event.pinned], np.asarray(behind, dtype=np.int32)])
        elif isinstance(event, SlotsRead):
            self._is_read = True
        elif isinstance(event, CanvasCommitted):
            if self._is_read:
                self.committed = []
            self.committed += event.tokens[: event.text_length].tolist()
            self._argmax = None
        elif isinstance(event, TextArrived):
            self._texts[event.is_thought].append(event.text)
        elif isinstance(event, GenerationFinished):
            self.committed = event.tokens.tolist()  # a fork may have left out blocks

    def tokens(self) -> list[int]:
        """Returns all tokens, up to the first end token of the running block."""
        tokens = list(self.committed)
        if self._argmax is not None:
            ends = np.flatnonzero(np.isin(self._argmax, list(self._ends)))
            tokens += self._argmax[: ends[0] if len(ends) else None].tolist()
        return tokens

    @property
    def is_text(self) -> bool:
        """True if it arrived as text, without tokens."""
        return any(self._texts.values())

    def reply(self, decode: Callable[[Iterable[int]], Reply]) -> Reply:
        """Returns the whole answer as it reads; ``decode`` reads tokens."""
        return self.arrived if self.is_text else decode(self.tokens())

    @property
    def arrived(self) -> Reply:
        return Reply("".join(self._texts[False]), "".join(self._texts[True]).strip())
