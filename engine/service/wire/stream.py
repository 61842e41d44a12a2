"""The replies of a run as a stream of bytes: records as in a trace file (``engine.trace.format``), one after another.

    HEAD   the run began; its header, JSON (``engine.trace.header``); first
    PREF, CANV, STEP, PINS, VRFY, SLOT, COMM, PART, DONE   the run's events (``engine.trace.codec``), in order
    IDLE   no event: the run waits, or a step takes long
    ENDS   the run is over, JSON: {"message": why it failed, or ""}; last, also of a run that never began

A stream without ENDS was broken off. A record of an unknown kind is skipped.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from engine.errors import SafelightError
from engine.events import Event
from engine.service.replies import RunAdvanced, RunEnded, RunReply, RunStarted
from engine.trace.codec import LAYOUTS, Codec
from engine.trace.format import HEAD, MAX_HEADER, MAX_WHY, Head, PayloadError, RecordBudget, frame, read_head, unpack
from engine.trace.header import TraceHeader, read_object
from engine.trace.index import SLACK, Order

CONTENT_TYPE = "application/vnd.safelight.run"
IDLE = frame(b"IDLE", b"")
MAX_MESSAGE = 2_000  # characters of a failure's message
MAX_UNKNOWN = 2**20  # bytes of a record of an unknown kind
_BEGIN, _END = b"HEAD", b"ENDS"


@dataclass(frozen=True)
class Ended:
    """The last reply of a run; ``message`` says why it failed, empty if it did not."""

    message: str = ""


class ReplyWriter:
    """Turns replies of one run into bytes; ``b""`` for replies that concern the machine and not the run."""

    def __init__(self) -> None:
        self._codec: Codec | None = None

    def write(self, reply: RunReply) -> bytes:
        """Returns the record of a reply, without the place of the model's files."""
        match reply:
            case RunStarted():
                header = reply.trace.header
                header = dataclasses.replace(header, model=dataclasses.replace(header.model, path=""))
                self._codec = Codec.for_header(header)
                return frame(_BEGIN, header.to_bytes())
            case RunAdvanced() if self._codec is not None:
                return frame(*self._codec.encode(reply.event))
            case RunEnded():
                return frame(_END, json.dumps({"message": str(reply.message)[:MAX_MESSAGE]}).encode())
        return b""


class ReplyReader:
    """Reads replies of one run from bytes in pieces of any size."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._budget = RecordBudget()
        self._order = Order(is_fork=False)
        self._codec: Codec | None = None
        self.is_over = False

    def feed(self, data: bytes) -> list[TraceHeader | Event | Ended]:
        """Returns the parts that are complete now, in order: the header first, ``Ended`` last.

        Raises:
            SafelightError: this is not the stream of a run.
        """
        self._bytes += data
        found: list[TraceHeader | Event | Ended] = []
        place = 0
        try:
            while len(self._bytes) - place >= HEAD.size:
                head = read_head(bytes(self._bytes[place : place + HEAD.size]), place + HEAD.size)
                if head is None:
                    raise PayloadError("its checksum is wrong")
                self._check(head)
                if len(self._bytes) < head.end:
                    break
                part = self._part(head, bytes(self._bytes[head.start : head.end]))
                found += [] if part is None else [part]
                place = head.end
            if self.is_over and len(self._bytes) > place:
                raise PayloadError("it continues after its end")
        except PayloadError as error:
            raise SafelightError(f"the server's answer cannot be read: {error}; try again") from None
        del self._bytes[:place]
        return found

    def finish(self) -> None:
        """Checks that the stream is whole.

        Raises:
            SafelightError: the connection ended before the run did.
        """
        if not self.is_over:
            raise SafelightError("the connection to the server was lost before the run ended; try again")

    def _most(self, kind: bytes) -> int:
        own = {_BEGIN: MAX_HEADER, _END: MAX_WHY}
        return own.get(kind) or (self._codec.most.get(kind, MAX_UNKNOWN) if self._codec is not None else MAX_UNKNOWN)

    def _check(self, head: Head) -> None:
        """Checks a record's header before its payload is read."""
        most = self._most(head.kind)
        if self.is_over or max(head.size, head.stored - SLACK) > most:
            raise PayloadError("a record is too large, or after the end")

    def _part(self, head: Head, stored: bytes) -> TraceHeader | Event | Ended | None:
        if not self._budget.allows(head.kind, head.size, head.block, head.step):
            raise PayloadError("it is longer than a run can be")
        payload = unpack(head, stored, self._most(head.kind))
        if head.kind == _BEGIN:
            if self._codec is not None:
                raise PayloadError("the run begins twice")
            header, _ = TraceHeader.from_bytes(payload)
            self._codec = Codec.for_header(header)
            return header
        if head.kind == _END:
            self.is_over = True
            return Ended(read_object(payload, dict[str, str]).get("message", "")[:MAX_MESSAGE])
        if head.kind not in LAYOUTS:
            return None
        if self._codec is None or self._order.is_over or not self._order.allows(head.kind, head.block, head.step):
            raise PayloadError("an event is out of its order")
        return self._codec.decode(head.kind, payload, head.block, head.step)
