"""The runs that can be opened, by the headers of their files. Without widgets.

Files are read in a thread, since a disk may be slow. Each header is read once. One call of ``headers`` reads at most
``LISTED_BYTES``; the next look continues.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.state.run.answers import answers_of, decision_words
from app.state.run.replay import Replay
from app.system.timers import later
from engine import TRACE_SUFFIX, SafelightError, TraceHeader, open_trace
from engine.trace import name_of, read_header, trace_files

LISTED_BYTES = 2 * 2**20  # unpacked, read at a time; an ordinary header has some ten thousand
KNOWN_BYTES = 8 * 2**20  # unpacked, of all headers kept in memory
MOST_ANCESTORS = 50  # most generations of forks that are followed upwards
RECENT = 60  # number of the user's runs that are listed
PIECE_MS = 50  # interval between two reports of what the first look has found so far
CLOSING_SECONDS = 5.0  # most time to wait for the file being read

Stamp = tuple[int, int]
Listed = tuple[TraceHeader, str]  # a header and the path of its file


class KeptRuns:
    """The files of runs in a folder. A file that cannot be read does not affect the others.

    Args:
        folder: the folder of this user's runs; headers of files elsewhere can be read, too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, TraceHeader | str, int]] = {}  # stamp, header or problem, and bytes read
        self._unreported: list[str] = []
        self._outcomes: dict[Path, str] = {}

    def newest(self, count: int, hidden: frozenset[str] = frozenset()) -> list[Path]:
        """Returns the newest files in the folder, the newest first, without links and those of ``hidden`` runs."""
        dated = sorted(((status.st_mtime, path) for path, status in trace_files(self._folder)), reverse=True)
        return [path for _, path in dated if path.stem not in hidden][:count]

    def comes_from(self, header: TraceHeader, hidden: frozenset[str]) -> bool:
        """Returns True if a run is one of ``hidden``, or was forked from one."""
        for _ in range(MOST_ANCESTORS if hidden else 0):
            parent = header.parent
            if header.id in hidden or (parent is not None and parent.id in hidden):
                return True
            above = self.headers([self._folder / f"{parent.id}{TRACE_SUFFIX}"] if parent is not None else [])
            header, _key = next(above, (None, ""))  # type: ignore[assignment]
            if header is None:
                break
        return False

    def headers(self, paths: Iterable[Path]) -> Iterator[Listed]:
        """Yields the headers of the files that can be read, with their paths."""
        left = LISTED_BYTES
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue  # it was deleted a moment ago
            stamp = (status.st_mtime_ns, status.st_size)
            stamp_then, found, read = self._known.get(path, (None, "", 0))
            if stamp_then != stamp:
                if left <= 0:
                    continue
                try:
                    found, read = read_header(path, LISTED_BYTES)
                except SafelightError as error:
                    found, read = str(error), LISTED_BYTES // 20  # estimated: the bytes unpacked are not known
                    self._unreported.append(found)
                left -= read
                self._remember(path, stamp, found, read)
            if isinstance(found, TraceHeader) and (found.canvas_length or found.decision is not None):
                yield found, str(path)  # other runs were sent by a server as text only

    def ancestors(self, of: Iterable[TraceHeader], known: Iterable[str]) -> Iterator[Listed]:
        """Yields the ancestors of runs whose files still exist, without those with an id in ``known``."""
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
        """Returns a decision's answers in a line; empty for other runs and for files that cannot be read."""
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
        """Returns why files are not listed, in sentences. Each problem is returned once."""
        problems, self._unreported = self._unreported, []
        return problems

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
    """The results of a look so far."""

    recent: tuple[Listed, ...] = ()
    gallery: tuple[Listed, ...] = ()
    ancestors: tuple[Listed, ...] = ()
    outcomes: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    is_over: bool = False


class RunCatalog(QObject):
    """``recent`` are the user's newest readable runs, the newest first; ``gallery`` are the runs shipped with the app.

    ``ancestors`` are older runs from which these, or those given to ``look``, were forked. ``outcomes`` has the answers
    of decisions in a line, and ``names`` the names that the user gave runs, by the path of their file. Runs that
    ``hidden`` returns, and their forks, are left out of ``recent``.

    All are empty before the first ``look``; each finished look replaces them. Must be closed before it is destroyed.
    """

    changed = Signal()  # the lists have changed
    failed = Signal(object)  # list[str]: why files are not listed, in sentences; each is reported once
    _found = Signal(object)  # a _Look, from the thread

    def __init__(
        self,
        folder: Path,
        gallery: Sequence[Path] = (),
        parent: QObject | None = None,
        hidden: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        super().__init__(parent)
        self._hidden = hidden
        self.recent: tuple[Listed, ...] = ()
        self.gallery: tuple[Listed, ...] = ()
        self.ancestors: tuple[Listed, ...] = ()
        self.outcomes: Mapping[str, str] = {}
        self.names: Mapping[str, str] = {}
        self._of: tuple[TraceHeader, ...] = ()
        self._kept = KeptRuns(folder)  # used by the thread only, and there is one thread at a time
        self._gallery = tuple(gallery)
        self._thread: threading.Thread | None = None
        self._is_asked_again = False
        self._closed = threading.Event()
        self._later = later(self, self.changed)
        self._found.connect(self._take)

    @property
    def is_looking(self) -> bool:
        """True if files are being read."""
        return self._thread is not None

    @property
    def is_alive(self) -> bool:
        """True if the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def look(self, of: Sequence[TraceHeader] = ()) -> None:
        """Reads the files again. ``changed`` is emitted if the lists change; the first look emits it several times.

        ``of`` are further runs whose ancestors are wanted.
        """
        if self._closed.is_set():
            return
        self._of = tuple(of) or self._of
        self._is_asked_again = self.is_looking
        if not self.is_looking:
            hidden = self._hidden()
            self._thread = threading.Thread(target=self._read, args=(hidden,), name="safelight-runs", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stops reading and ends the thread. May be called again.

        A read that hangs is abandoned after ``CLOSING_SECONDS``.
        """
        self._closed.set()
        self._later.stop()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _read(self, hidden: frozenset[str]) -> None:
        """Reads all files. Runs in the thread."""
        recent: list[Listed] = []
        gallery: list[Listed] = []
        ancestors: list[Listed] = []
        problems: list[str] = []
        outcomes: dict[str, str] = {}
        names: dict[str, str] = {}
        try:
            for paths, found in ((self._kept.newest(RECENT, hidden), recent), (self._gallery, gallery)):
                for one in self._kept.headers(paths):
                    if self._closed.is_set():
                        return
                    header, path = one
                    if self._kept.comes_from(header, hidden):
                        continue
                    found.append(one)
                    said, name = self._kept.outcome(header, Path(path)), name_of(Path(path))
                    outcomes |= {path: said} if said else {}
                    names |= {path: name} if name else {}
                    self._report(_Look(tuple(recent), tuple(gallery), outcomes=dict(outcomes), names=dict(names)))
            known = [header for header, _ in (*recent, *gallery)]
            ancestors.extend(self._kept.ancestors((*known, *self._of), [header.id for header in known]))
            problems = self._kept.problems()
        finally:
            known_now = tuple(recent), tuple(gallery), tuple(ancestors), outcomes, names, tuple(problems)
            self._report(_Look(*known_now, is_over=True))

    def _report(self, look: _Look) -> None:
        if not self._closed.is_set():
            with contextlib.suppress(RuntimeError):  # the catalog was deleted
                self._found.emit(look)

    @Slot(object)
    def _take(self, look: _Look) -> None:
        if self._closed.is_set():
            return
        known = self.recent, self.gallery, self.ancestors, self.names
        self.recent = look.recent if look.is_over or len(look.recent) > len(self.recent) else self.recent
        self.gallery = look.gallery if look.is_over or len(look.gallery) > len(self.gallery) else self.gallery
        self.ancestors = look.ancestors if look.is_over else self.ancestors
        self.outcomes = {**self.outcomes, **look.outcomes}
        self.names = look.names if look.is_over else {**self.names, **look.names}
        is_new = known != (self.recent, self.gallery, self.ancestors, self.names)
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
