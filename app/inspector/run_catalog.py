"""The runs that can be opened, by the headers of their files. Without widgets.

Files are read in a thread, since a disk may be slow. Each header is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from engine import TRACE_SUFFIX, SafelightError, TraceHeader
from engine.trace import name_of, read_header, trace_files

LISTED_BYTES = 2 * 2**20  # unpacked, of one header; an ordinary one has some ten thousand
MAX_ANCESTORS = 50  # most generations of forks that are followed upwards
RECENT = 60  # number of the user's runs that are listed

Stamp = tuple[int, int]
Listed = tuple[TraceHeader, str]  # a header and the path of its file


class KeptRuns:
    """The files of runs in a folder. A file that cannot be read does not affect the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, TraceHeader | None]] = {}
        self.problems: list[str] = []  # why files are not listed, each once

    def newest(self, hidden: frozenset[str] = frozenset()) -> list[Path]:
        """Returns the newest files in the folder, the newest first, without links and those of ``hidden`` runs."""
        dated = sorted(((status.st_mtime, path) for path, status in trace_files(self._folder)), reverse=True)
        return [path for _, path in dated if path.stem not in hidden][:RECENT]

    def comes_from(self, header: TraceHeader, hidden: frozenset[str]) -> bool:
        """Returns True if a run is one of ``hidden``, or was forked from one."""
        above = self.ancestors([header], ()) if hidden else ()
        line = [header, *(found for found, _ in above)]
        return any(one.id in hidden or (one.parent is not None and one.parent.id in hidden) for one in line)

    def headers(self, paths: Iterable[Path]) -> Iterator[Listed]:
        """Yields the headers of the files that can be read, with their paths."""
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue  # it was deleted a moment ago
            stamp = (status.st_mtime_ns, status.st_size)
            stamp_then, found = self._known.get(path, (None, None))
            if stamp_then != stamp:
                try:
                    found = read_header(path, LISTED_BYTES)[0]
                except SafelightError as error:
                    found = None
                    self.problems.append(str(error))
                self._known[path] = stamp, found
            if found is not None and (found.canvas_length or found.decision is not None):
                yield found, str(path)  # other runs were sent by a server as text only

    def ancestors(self, of: Iterable[TraceHeader], known: Iterable[str]) -> Iterator[Listed]:
        """Yields the ancestors of runs whose files still exist, without those with an id in ``known``."""
        seen = set(known)
        waiting = [header.parent.id for header in of if header.parent is not None]
        for _ in range(MAX_ANCESTORS):
            wanted = [id for id in dict.fromkeys(waiting) if id not in seen]
            if not wanted:
                return
            seen.update(wanted)
            found = list(self.headers(self._folder / f"{id}{TRACE_SUFFIX}" for id in wanted))
            yield from found
            waiting = [header.parent.id for header, _ in found if header.parent is not None]


@dataclass(frozen=True)
class Look:
    """The runs that a look found.

    ``recent`` are the user's newest readable runs, the newest first, without hidden ones and their forks; ``gallery``
    are the runs shipped with the app; ``ancestors`` are older runs from which these were forked; ``names`` has the
    names that the user gave runs, by the path of their file.
    """

    recent: tuple[Listed, ...] = ()
    gallery: tuple[Listed, ...] = ()
    ancestors: tuple[Listed, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


class RunCatalog(QObject):
    """``found`` has the runs of the latest look, none before the first. ``hidden`` returns the runs to leave out."""

    changed = Signal()  # another look has found other runs
    failed = Signal(object)  # list[str]: why files are not listed, in sentences; each is reported once

    def __init__(
        self,
        folder: Path,
        gallery: Sequence[Path] = (),
        parent: QObject | None = None,
        hidden: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        super().__init__(parent)
        self._hidden, self._gallery = hidden, tuple(gallery)
        self._of: tuple[TraceHeader, ...] = ()
        self._kept = KeptRuns(folder)  # used by the thread only, and there is one thread at a time
        self._looking = Background(self, self._take)
        self.found = Look()

    @property
    def is_looking(self) -> bool:
        """True if files are being read."""
        return self._looking.is_busy

    def look(self, of: Sequence[TraceHeader] = ()) -> None:
        """Reads the files again. ``of`` are further runs whose ancestors are wanted."""
        self._of = tuple(of) or self._of
        hidden = self._hidden()
        self._looking.ask(lambda: self._read(hidden))

    def _read(self, hidden: frozenset[str]) -> Look:
        """Reads all files. Runs in the thread."""
        kept = self._kept
        recent = tuple(one for one in kept.headers(kept.newest(hidden)) if not kept.comes_from(one[0], hidden))
        gallery = tuple(kept.headers(self._gallery))
        known = [header for header, _ in (*recent, *gallery)]
        ancestors = tuple(kept.ancestors((*known, *self._of), [header.id for header in known]))
        names = {path: name for _, path in recent if (name := name_of(Path(path)))}
        return Look(recent, gallery, ancestors, names)

    @Slot(object)
    def _take(self, found: Look) -> None:
        problems, self._kept.problems = self._kept.problems, []
        if found != self.found:
            self.found = found
            self.changed.emit()
        if problems:
            self.failed.emit(problems)
