"""Reads the lanes' texts beside the window: each as a whole, how far it is the first one's, whether it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.state.race.prompts import is_right
from app.state.race.running import agreement
from engine import Recording, SafelightError

ALL, NOTHING = -1, -2
"""In place of a block: all of a run, with the draft of its latest block, and nothing of it."""


@dataclass(frozen=True)
class LaneReading:
    """A lane's text; ``agreement`` with the first lane's, 0 to 1; ``is_right`` None where no program can tell."""

    text: str
    agreement: float | None = None
    is_right: bool | None = None


@dataclass(frozen=True, eq=False)
class ReadingRequest:
    """What is to be read.

    Args:
        parts: of each lane its run and the last block that counts, or ``ALL`` or ``NOTHING``; None: it has no run.
        prompt: that the texts are checked against; empty where they are not whole yet.
    """

    parts: tuple[tuple[Recording, int] | None, ...]
    prompt: str = ""

    def read(self) -> tuple[LaneReading, ...]:
        """Takes as long as the texts are long; a Sudoku takes the solver a moment."""
        texts = [_text(part) for part in self.parts]
        found = []
        for place, text in enumerate(texts):
            share = agreement(text, texts[0]) if place and any(texts) else None
            found.append(LaneReading(text, share, is_right(self.prompt, text) if self.prompt else None))
        return tuple(found)


def _text(part: tuple[Recording, int] | None) -> str:
    if part is None or part[1] == NOTHING:
        return ""
    trace, block = part
    try:
        return trace.text if block == ALL else trace.reply(block).text
    except SafelightError as error:  # its file cannot be read any more
        return str(error)


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


def parts_of(traces: Sequence[Recording | None], blocks: Sequence[int]) -> tuple[tuple[Recording, int] | None, ...]:
    """The parts of a request, of lanes in their order."""
    return tuple(None if trace is None else (trace, block) for trace, block in zip(traces, blocks, strict=True))
