"""The runs that were kept, as they are offered: the headers of the newest files. Knows no widget.

Listing works while the window waits, so each header is read once, and of all together no more than ``LISTED_BYTES`` at
a time; what is left comes with the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from engine import SafelightError, TraceHeader
from engine.trace import read_header, trace_files

LISTED_BYTES = 2 * 2**20  # unpacked: ordinary headers have some ten thousand
KNOWN_BYTES = 8 * 2**20  # unpacked: of the headers that are remembered

Stamp = tuple[int, int]


class KeptRuns:
    """Files of runs in a folder. One that cannot be read hides no other.

    Args:
        folder: where the runs of this user are; the files of others may be asked for too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, TraceHeader | str, int]] = {}  # a header or why there is none, and bytes
        self._untold: list[str] = []

    def newest(self, count: int) -> list[Path]:
        """Files in the folder, the newest first; no links and nothing that is no file."""
        dated = sorted(((status.st_mtime, path) for path, status in trace_files(self._folder)), reverse=True)
        return [path for _, path in dated[:count]]

    def headers(self, paths: Iterable[Path]) -> Iterator[tuple[TraceHeader, str]]:
        """The headers of those that can be read, with their paths."""
        left = LISTED_BYTES
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue  # it was pruned a moment ago
            stamp = (status.st_mtime_ns, status.st_size)
            stamp_then, found, read = self._known.get(path, (None, "", 0))
            if stamp_then != stamp:
                if left <= 0:
                    continue
                try:
                    found, read = read_header(path, LISTED_BYTES)
                except SafelightError as error:
                    found, read = str(error), LISTED_BYTES // 20  # what it unpacked before it failed is not known
                    self._untold.append(found)
                left -= read
                self._remember(path, stamp, found, read)
            if isinstance(found, TraceHeader):
                yield found, str(path)

    def problems(self) -> list[str]:
        """Why files are not listed, in sentences; each is told once."""
        told, self._untold = self._untold, []
        return told

    def _remember(self, path: Path, stamp: Stamp, found: TraceHeader | str, read: int) -> None:
        self._known.pop(path, None)
        self._known[path] = stamp, found, read
        while sum(read for *_, read in self._known.values()) > KNOWN_BYTES:
            del self._known[next(iter(self._known))]
