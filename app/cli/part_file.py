"""An output that grows line by line and outlives the process that writes it, so that the same command goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from engine import SafelightError, files, windows

LINE_END = b"\r\n"
MOST_BYTES = 2**30


class PartFile:
    """The records of a CSV file that are done, in ``OUT.part``; it becomes ``OUT`` with ``finish``.

    ``OUT.part.json`` has what they were made from, so that nobody goes on with something else. A record that was cut
    off in the middle is written again.

    Args:
        out: where the whole file is to be.
        header: its first record, with its line end.
        made_from: what all records depend on: a name for people, and a value.

    Raises:
        SafelightError: what is there was made from something else, or is none of ours, or nothing can be written.
    """

    def __init__(self, out: Path, header: str, made_from: Mapping[str, str]) -> None:
        self._out = out
        self.path = out.with_name(out.name + ".part")
        self._note = out.with_name(out.name + ".part.json")
        self._file: BinaryIO | None = None
        self.records = 0
        """Done before, without the header."""
        if out.exists() and not out.is_file():
            raise SafelightError(f"{out} is not a file. Choose another place")
        start = header.encode()
        try:
            if self.path.exists() or self.path.is_symlink():
                self._check(made_from)
                self.records, size = self._whole(start)
                os.truncate(self.path, size)
                self._file = self.path.open("ab", buffering=0)
                if not size:
                    self._file.write(start)
            else:
                files.write_json(self._note, dict(made_from))
                self._file = self.path.open("xb", buffering=0)
                self._file.write(start)
        except OSError as error:
            raise files.explained(error, self.path) from error

    def append(self, record: str) -> None:
        """Write a record, with its line end.

        Raises:
            SafelightError: the disk is full, or the like.
        """
        assert self._file is not None
        try:
            data = memoryview(record.encode())
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise files.explained(error, self.path) from error

    def finish(self) -> None:
        """Put the file in its place.

        Raises:
            SafelightError: as ``append``.
        """
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            windows.retried(os.replace, self.path, self._out)
            self._note.unlink(missing_ok=True)
        except OSError as error:
            raise files.explained(error, self._out) from error

    def done(self) -> bytes:
        """All that is written, the header first."""
        return files.read_bytes(self.path, MOST_BYTES, follow_links=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _check(self, made_from: Mapping[str, str]) -> None:
        """See that the records were made from the same."""
        remove = f"remove {self.path} to begin anew"
        if not files.is_plain_file(self.path) or not files.is_plain_file(self._note):
            raise SafelightError(f"{self.path} is there, and not from this command; {remove}, or choose another place")
        made = files.read_json(self._note)
        for name, value in made_from.items():
            if made.get(name) != value:
                raise SafelightError(
                    f"{self.path} was begun with another {name}; {remove}, or give the command as it was"
                )

    def _whole(self, header: bytes) -> tuple[int, int]:
        """How many records are whole, and the bytes that they take with the header; both 0 where that is cut off."""
        data = self.done()
        if not data.startswith(header):
            if header.startswith(data):
                return 0, 0
            raise SafelightError(f"{self.path} was changed by something else; remove it to begin anew")
        count, end, is_quoted = 0, len(header), False
        for line in data[end:].split(LINE_END)[:-1]:
            is_quoted ^= line.count(b'"') % 2 == 1
            if not is_quoted:
                count += 1
                whole = end + len(line) + len(LINE_END)
            end += len(line) + len(LINE_END)
        return count, whole if count else len(header)
