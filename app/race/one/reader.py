"""Reads the lanes' texts beside the window: each as a whole, how far it is the first one's, whether it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.state.race.prompts import is_right
from app.state.race.running import agreement
from engine import Recording, SafelightError

ALL, NOTHING = -1, -2
"""In place of a block: all of a run, and nothing of it."""


class LanePart(NamedTuple):
    """As much of a lane's text as is to be read.

    Args:
        trace: its run; None where it has none.
        block: the last one that counts, or ``ALL`` or ``NOTHING``.
        behind: tokens that stand behind it, of a block that is not committed.
    """

    trace: Recording | None = None
    block: int = NOTHING
    behind: tuple[int, ...] = ()

    def read(self) -> str:
        """The text; of a file that cannot be read any more, why."""
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
    """A lane's text; ``agreement`` with the first lane's, 0 to 1; ``is_right`` None where no program can tell."""

    text: str
    agreement: float | None = None
    is_right: bool | None = None


@dataclass(frozen=True)
class ReadingRequest:
    """What is to be read.

    Args:
        parts: of each lane.
        prompt: that the texts are checked against; empty where they are not whole yet.
    """

    parts: tuple[LanePart, ...]
    prompt: str = ""

    def read(self) -> tuple[LaneReading, ...]:
        """Takes as long as the texts are long; a Sudoku takes the solver a moment."""
        texts = [part.read() for part in self.parts]
        found = []
        for place, text in enumerate(texts):
            share = agreement(text, texts[0]) if place and any(texts) else None
            found.append(LaneReading(text, share, is_right(self.prompt, text) if self.prompt else None))
        return tuple(found)


class RaceReader(QObject):
    """What is asked for last is read; what was asked before is dropped."""

    found = Signal(object)  # a LaneReading for each lane

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._work = Background(self)
        self._work.done.connect(self.found)
        self._work.failed.connect(self._fail)

    @property
    def is_busy(self) -> bool:
        return self._work.is_busy

    def ask(self, request: ReadingRequest) -> None:
        """Read; ``found`` tells what."""
        self._work.ask(request.read)

    def drop(self) -> None:
        """Nobody waits for a reading any more."""
        self._work.drop()

    @Slot(object)
    def _fail(self, error: Exception) -> None:
        raise error
