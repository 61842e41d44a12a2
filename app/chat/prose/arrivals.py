"""Decides when finished pictures and colours are put into a text: in batches while more are expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Slot

from app.chat.prose.aside import aside
from app.chat.prose.piece import Piece
from app.chat.prose.slow import Job
from app.system.timers import later

PAUSE, LONGEST_PAUSE = 30, 1_000
"""Milliseconds between updates of the text while more results are expected; the pause doubles each time."""


class Arrivals(QObject):
    """Collects finished jobs; calls ``take`` when those in ``jobs`` should be put into the text."""

    def __init__(self, parent: QObject, take: Callable[[], object]) -> None:
        super().__init__(parent)
        self._pieces: Sequence[Piece] = ()
        self.jobs: set[Job] = set()
        self._pause = PAUSE
        self._timer = later(self, take)
        aside().done.connect(self._note)

    def begin(self, pieces: Sequence[Piece]) -> None:
        """Waits for the jobs of these pieces; the sequence grows while the text is read."""
        self._pieces = pieces
        self.jobs.clear()
        self._pause = PAUSE

    def put_in(self, *, is_all: bool) -> None:
        """Notes that all of ``jobs`` were put in, or only as many as time allowed; the rest then follow."""
        if is_all:
            self.jobs.clear()
        else:
            self._timer.start(0)

    @Slot(object)
    def _note(self, done: set[Job]) -> None:
        if any(piece.waits_for(done) for piece in self._pieces):
            self.jobs |= done
            if all(piece.has_all(self.jobs) for piece in self._pieces):
                self._timer.start(0)
            elif not self._timer.isActive():
                self._timer.start(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
