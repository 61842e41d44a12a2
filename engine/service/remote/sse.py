"""Reads server-sent events from a stream of bytes. Does not know their content."""

from __future__ import annotations

from engine.service.remote.problems import RemoteError

LONGEST_LINE = 2**22  # bytes; also of the data of one event
MAX_BYTES = 2**28  # of a whole stream


class EventReader:
    """Takes pieces of any size; lines end with LF, CR LF or CR."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._held = self._read = 0  # bytes of ``_data``, and of all

    def feed(self, piece: bytes) -> list[str]:
        """Returns the data of each event that is complete now, in order.

        Raises:
            RemoteError: a line never ends, or the stream does not.
        """
        self._read += len(piece)
        found: list[str] = []
        searched = len(self._rest)
        self._rest += piece
        if self._rest.find(b"\n", searched) < 0 and self._rest.find(b"\r", searched) < 0:
            self._check()
            return found
        lines = self._rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        has_carriage = self._rest.endswith(b"\r")  # its line feed may be in the next piece
        self._rest = bytearray(lines.pop())
        if has_carriage:
            self._rest = bytearray(lines.pop() + b"\r")
        for line in lines:
            if not line:
                found += self._event()
            elif line.startswith(b"data:"):
                self._data.append(bytes(line[5:].removeprefix(b" ")))
                self._held += len(line)
                self._check()
        self._check()
        return found

    def finish(self) -> list[str]:
        """Returns the data behind the last empty line, at the end of the stream."""
        return [*self.feed(b"\n\n"), *self._event()]

    def _event(self) -> list[str]:
        if not self._data:
            return []
        whole = b"\n".join(self._data).decode("utf-8", "replace")
        self._data, self._held = [], 0
        return [whole]

    def _check(self) -> None:
        if len(self._rest) > LONGEST_LINE or self._held > LONGEST_LINE or self._read > MAX_BYTES:
            raise RemoteError("The server sends an endless line. The text so far is kept.")
