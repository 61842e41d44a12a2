"""The runs that can be opened, as they are offered: the headers of their files. Knows no widget.

Files are read in a thread, as a disk may be slow. Each header is read once, and of all together no more than
``LISTED_BYTES`` at a time; what is left comes with the next look.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.state.run.answers import answers_of, decision_words
from app.state.run.replay import Replay
from engine import TRACE_SUFFIX, SafelightError, TraceHeader, open_trace
from engine.trace import read_header, trace_files

LISTED_BYTES = 2 * 2**20  # unpacked: ordinary headers have some ten thousand
KNOWN_BYTES = 8 * 2**20  # unpacked: of the headers that are remembered
MOST_ANCESTORS = 50  # forks of forks that are followed upwards
RECENT = 20  # runs of the user that are offered
PIECE_MS = 50  # between two times that the first look tells what it has found so far
CLOSING_SECONDS = 5.0  # for the file that is being read

Stamp = tuple[int, int]
Listed = tuple[TraceHeader, str]  # with the path of its file


class KeptRuns:
    """Files of runs in a folder. One that cannot be read hides no other.

    Args:
        folder: where the runs of this user are; the files of others may be asked for too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, TraceHeader | str, int]] = {}  # a header or why there is none, and bytes
        self._untold: list[str] = []
        self._outcomes: dict[Path, str] = {}

    def newest(self, count: int) -> list[Path]:
        """Files in the folder, the newest first; no links and nothing that is no file."""
        dated = sorted(((status.st_mtime, path) for path, status in trace_files(self._folder)), reverse=True)
        return [path for _, path in dated[:count]]

    def headers(self, paths: Iterable[Path]) -> Iterator[Listed]:
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
            if isinstance(found, TraceHeader) and (found.canvas_length or found.decision is not None):
                yield found, str(path)  # the others a server sent as text alone

    def ancestors(self, of: Iterable[TraceHeader], known: Iterable[str]) -> Iterator[Listed]:
        """What runs were made from, and what that was made from, as far as it is kept; none of the ids ``known``."""
        seen = set(known)
        waiting = [header.parent.id for header in of if header.parent is not None]
        for _ in range(MOST_ANCESTORS):
            wanted = [id for id in dict.fromkeys(waiting) if id not in seen]
            if not wanted:
                return
            seen.update(wanted)
            found = list(self.headers(self._folder / f"{id}{TRACE_SUFFIX}" for id in wanted))
            yield from found
            waiting = [header.parent.id for header, _ in found if header.parent is not None]

    def outcome(self, header: TraceHeader, path: Path) -> str:
        """What a decision came to, in a line; empty of any other run, and where it cannot be read."""
        if header.decision is None:
            return ""
        if path not in self._outcomes:
            self._outcomes[path] = ""
            with contextlib.suppress(SafelightError):
                trace = open_trace(path)
                reads = Replay(trace).reads()
                trace.close()
                self._outcomes[path] = decision_words(answers_of(header.decision, reads))
        return self._outcomes[path]

    def problems(self) -> list[str]:
        """Why files are not listed, in sentences; each is told once."""
        told, self._untold = self._untold, []
        return told

    def _remember(self, path: Path, stamp: Stamp, found: TraceHeader | str, read: int) -> None:
        self._known.pop(path, None)
        self._outcomes.pop(path, None)
        self._known[path] = stamp, found, read
        while sum(read for *_, read in self._known.values()) > KNOWN_BYTES:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._outcomes.pop(oldest, None)


@dataclass(frozen=True)
class _Look:
    """What a look has found so far."""

    recent: tuple[Listed, ...] = ()
    gallery: tuple[Listed, ...] = ()
    ancestors: tuple[Listed, ...] = ()
    outcomes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    is_over: bool = False


class RunCatalog(QObject):
    """``recent`` are the user's newest runs that can be read, the newest first; ``gallery`` those of the app itself.

    ``ancestors`` are older ones that those, or what was given to ``look``, were made from. ``outcomes`` has what
    decisions came to, in a line, by the path of their file.

    All are empty before the first ``look``, and a look that is over replaces them. Must be closed before it is
    destroyed.
    """

    changed = Signal()  # other runs are known
    failed = Signal(object)  # list[str]: why files are not listed, in sentences; each is told once
    _found = Signal(object)  # a _Look, from the thread

    def __init__(self, folder: Path, gallery: Sequence[Path] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.recent: tuple[Listed, ...] = ()
        self.gallery: tuple[Listed, ...] = ()
        self.ancestors: tuple[Listed, ...] = ()
        self.outcomes: Mapping[str, str] = {}
        self._of: tuple[TraceHeader, ...] = ()
        self._kept = KeptRuns(folder)  # of the thread alone, of which there is one at a time
        self._gallery = tuple(gallery)
        self._thread: threading.Thread | None = None
        self._is_asked_again = False
        self._closed = threading.Event()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self.changed)
        self._found.connect(self._take)

    @property
    def is_looking(self) -> bool:
        """Whether files are being read."""
        return self._thread is not None

    @property
    def is_alive(self) -> bool:
        """Whether a thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def look(self, of: Sequence[TraceHeader] = ()) -> None:
        """Look at the files again; ``changed`` tells when other runs are known, the first time piece by piece.

        ``of``: runs whose ancestors are wanted, too.
        """
        if self._closed.is_set():
            return
        self._of = tuple(of) or self._of
        self._is_asked_again = self.is_looking
        if not self.is_looking:
            self._thread = threading.Thread(target=self._read, name="safelight-runs", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Give up what is being read and end the thread; may be called again.

        A file that answers to nobody is left behind after ``CLOSING_SECONDS``.
        """
        self._closed.set()
        self._later.stop()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _read(self) -> None:
        """In the thread."""
        recent: list[Listed] = []
        gallery: list[Listed] = []
        ancestors: list[Listed] = []
        problems: list[str] = []
        outcomes: dict[str, str] = {}
        try:
            for paths, found in ((self._kept.newest(RECENT), recent), (self._gallery, gallery)):
                for one in self._kept.headers(paths):
                    if self._closed.is_set():
                        return
                    found.append(one)
                    header, path = one
                    said = self._kept.outcome(header, Path(path))
                    outcomes |= {path: said} if said else {}
                    self._tell(_Look(tuple(recent), tuple(gallery), outcomes=dict(outcomes)))
            known = [header for header, _ in (*recent, *gallery)]
            ancestors.extend(self._kept.ancestors((*known, *self._of), [header.id for header in known]))
            problems = self._kept.problems()
        finally:
            known_now = tuple(recent), tuple(gallery), tuple(ancestors), outcomes, tuple(problems)
            self._tell(_Look(*known_now, is_over=True))

    def _tell(self, look: _Look) -> None:
        if not self._closed.is_set():
            with contextlib.suppress(RuntimeError):  # nobody is there any more
                self._found.emit(look)

    @Slot(object)
    def _take(self, look: _Look) -> None:
        if self._closed.is_set():
            return
        known = self.recent, self.gallery, self.ancestors
        self.recent = look.recent if look.is_over or len(look.recent) > len(self.recent) else self.recent
        self.gallery = look.gallery if look.is_over or len(look.gallery) > len(self.gallery) else self.gallery
        self.ancestors = look.ancestors if look.is_over else self.ancestors
        self.outcomes = {**self.outcomes, **look.outcomes}
        is_new = known != (self.recent, self.gallery, self.ancestors)
        if not look.is_over:
            if is_new and not self._later.isActive():
                self._later.start(PIECE_MS)
            return
        if is_new or self._later.isActive():
            self._later.stop()
            self.changed.emit()
        self._thread = None
        if look.problems:
            self.failed.emit(list(look.problems))
        if self._is_asked_again:
            self._is_asked_again = False
            self.look()
