"""When pictures and colours that have come are put into a text: many at once while more are on their way."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat.prose.aside import aside
from app.chat.prose.piece import Piece
from app.chat.prose.slow import Job

PAUSE, LONGEST_PAUSE = 30, 1_000
"""Milliseconds between the times that pictures are put in while more are to come: it doubles each time."""


class Arrivals(QObject):
    """``due`` says that ``jobs`` are to be put in."""

    due = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Sequence[Piece] = ()
        self.jobs: set[Job] = set()
        self._pause = PAUSE
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.due)
        aside().done.connect(self._note)

    def begin(self, pieces: Sequence[Piece]) -> None:
        """Wait for what these want, which become more while the text is read."""
        self._pieces = pieces
        self.jobs.clear()
        self._pause = PAUSE

    def put_in(self, *, is_all: bool) -> None:
        """``jobs`` have been put in, or as many of them as there was time for."""
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
