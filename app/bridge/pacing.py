"""Limits how fast replies are delivered: with a pace set, each step is shown for at least that long."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.bridge.mailbox import Mailbox
from engine import StepFinished
from engine.service import RunAdvanced, RunEnded, RunRequest, ServiceReply

PACED_LIMIT = 2  # how many replies a paced engine may be ahead of the view


class Pacing(QObject):
    """Delivers a mailbox's replies. Leaves the mailbox full while a step is shown, so that its writer waits."""

    released = Signal(object)  # list[ServiceReply], in order

    def __init__(self, mailbox: Mailbox[ServiceReply], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._mailbox = mailbox
        self._limit = mailbox.limit
        self._pace_ms = 0
        self._held: list[ServiceReply] = []  # taken from the mailbox, not delivered yet
        self._paced: set[str] = set()  # ids of queued and current runs
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self.drain)

    @property
    def pace_ms(self) -> int:
        """Minimum time between two displayed steps, in milliseconds; 0 does not wait."""
        return self._pace_ms

    @pace_ms.setter
    def pace_ms(self, value: int) -> None:
        self._pace_ms = value
        self._mailbox.limit = PACED_LIMIT if value else self._limit

    def expect(self, request: RunRequest) -> None:
        """Announce a run. A fork or infill is shown from its trace, not from its replies, so it is not paced."""
        if request.source is None:
            self._paced.add(request.run_id)

    def skip(self, request: RunRequest) -> None:
        """Stop pacing a run: deliver its pending replies without waiting."""
        self._paced.discard(request.run_id)
        self._pause.stop()
        self.drain()

    @Slot()
    def drain(self) -> None:
        """Deliver what is pending; with a pace set, at most one step at a time."""
        while not self._pause.isActive():
            replies = self._held or self._mailbox.drain()
            if not replies:
                return
            end = len(replies)
            if self._pace_ms:
                first = next((place for place, reply in enumerate(replies) if self._is_held(reply)), None)
                if first is not None:
                    end = first + 1
                    self._pause.start(self._pace_ms)
            self._held = replies[end:]
            self._paced -= {reply.run_id for reply in replies[:end] if isinstance(reply, RunEnded)}
            self.released.emit(replies[:end])

    def _is_held(self, reply: ServiceReply) -> bool:
        """Whether this reply is paced."""
        return isinstance(reply, RunAdvanced) and reply.run_id in self._paced and isinstance(reply.event, StepFinished)
