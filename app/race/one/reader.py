"""Reads the lanes' texts in a thread, with each text's agreement with the first lane's and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.state.race.prompts import is_right
from app.state.race.running import agreement
from engine import Recording, SafelightError

ALL, NOTHING = -1, -2
"""Values in place of a block index: all of a run, and none of it."""


class LanePart(NamedTuple):
    """The part of a lane's text that is to be read.

    Args:
        trace: The lane's run; None if it has none.
        block: Index of the last block to read, or ``ALL`` or ``NOTHING``.
        behind: Tokens after that block, from one that is not committed.
    """

    trace: Recording | None = None
    block: int = NOTHING
    behind: tuple[int, ...] = ()

    def read(self) -> str:
        """Returns the text; if the run's file cannot be read any more, the reason."""
        if self.trace is None:
            return ""
        try:
            if self.block == ALL:
                return self.trace.text
            before = "" if self.block == NOTHING else self.trace.reply(self.block).text
        except SafelightError as error:
            return str(error)
        return before + "".join(self.trace.piece(token) for token in self.behind)


@dataclass(frozen=True)
class LaneReading:
    """A lane's text, its agreement with the first lane's (0 to 1), and whether it is right (None if not checkable)."""

    text: str
    agreement: float | None = None
    is_right: bool | None = None


@dataclass(frozen=True)
class ReadingRequest:
    """A request to read the lanes' texts.

    Args:
        parts: The part to read, for each lane.
        prompt: The prompt to check the answers to; empty while the texts are not complete.
    """

    parts: tuple[LanePart, ...]
    prompt: str = ""

    def read(self) -> tuple[LaneReading, ...]:
        """Reads and checks the texts. Takes time with long texts, and with a Sudoku, which is solved."""
        texts = [part.read() for part in self.parts]
        found = []
        for place, text in enumerate(texts):
            share = agreement(text, texts[0]) if place and any(texts) else None
            found.append(LaneReading(text, share, is_right(self.prompt, text) if self.prompt else None))
        return tuple(found)
