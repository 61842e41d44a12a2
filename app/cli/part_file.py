"""An output that grows line by line and survives the end of its process, so that the same command can resume it."""

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
    """The finished records of a CSV file, in ``OUT.part``; ``finish`` renames it to ``OUT``.

    ``OUT.part.json`` stores what the records depend on, so that no other command resumes the file. A record that was
    cut off in the middle is written again.

    Args:
        out: the path of the whole file.
        header: its first record, with its line end.
        made_from: what all records depend on: a name for people, and a value.

    Raises:
        SafelightError: the file was made from something else or not by this command, or it cannot be written.
    """

    def __init__(self, out: Path, header: str, made_from: Mapping[str, str]) -> None:
        self._out = out
        self.path = out.with_name(out.name + ".part")
        self._note = out.with_name(out.name + ".part.json")
        self._file: BinaryIO | None = None
        self.records = 0
        """Records that were written before, without the header."""
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
        """Writes a record, with its line end.

        Raises:
            SafelightError: it cannot be written, for example because the disk is full.
        """
        assert self._file is not None
        try:
            data = memoryview(record.encode())
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise files.explained(error, self.path) from error

    def finish(self) -> None:
        """Renames the file to its final path.

        Raises:
            SafelightError: it cannot be written, for example because the disk is full.
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
        """Returns everything that is written, the header first."""
        return files.read_bytes(self.path, MOST_BYTES, follow_links=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _check(self, made_from: Mapping[str, str]) -> None:
        """Checks that the existing records depend on the same values."""
        remove = f"remove {self.path} to start again"
        if not files.is_plain_file(self.path) or not files.is_plain_file(self._note):
            raise SafelightError(
                f"{self.path} exists, and this command did not write it; {remove}, or choose another place"
            )
        made = files.read_json(self._note)
        for name, value in made_from.items():
            if made.get(name) != value:
                raise SafelightError(
                    f"{self.path} was started with another {name}; {remove}, or use the same options as before"
                )

    def _whole(self, header: bytes) -> tuple[int, int]:
        """Counts the complete records, and the bytes of these with the header; both 0 if the header is cut off."""
        data = self.done()
        if not data.startswith(header):
            if header.startswith(data):
                return 0, 0
            raise SafelightError(f"{self.path} was changed by something else; remove it to start again")
        count, end, is_quoted = 0, len(header), False
        for line in data[end:].split(LINE_END)[:-1]:
            is_quoted ^= line.count(b'"') % 2 == 1
            if not is_quoted:
                count += 1
                whole = end + len(line) + len(LINE_END)
            end += len(line) + len(LINE_END)
        return count, whole if count else len(header)
