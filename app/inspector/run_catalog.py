"""The runs that can be opened, by the headers of their files, and the lists made of them. Without widgets.

Files are read in a thread, since a disk may be slow. Each header is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.inspector.forks.panel import RunItem
from app.inspector.run_cards import Offer
from app.inspector.words import (
    MAX_TITLE,
    Piece,
    asked_in_words,
    made_in_words,
    prompt_in_line,
    run_title,
    title_in_words,
)
from app.state.run.comparison import asked
from app.state.run.task_words import kind_words
from app.system.i18n import tr
from engine import TRACE_SUFFIX, GalleryTrace, SafelightError, TraceHeader
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
        line = [header, *(ancestor for ancestor, _ in above)]
        return any(one.id in hidden or (one.parent is not None and one.parent.id in hidden) for one in line)

    def headers(self, paths: Iterable[Path]) -> Iterator[Listed]:
        """Yields the headers of the files that can be read, with their paths."""
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue  # it was deleted a moment ago
            stamp = (status.st_mtime_ns, status.st_size)
            stamp_then, header = self._known.get(path, (None, None))
            if stamp_then != stamp:
                try:
                    header = read_header(path, LISTED_BYTES)[0]
                except SafelightError as error:
                    header = None
                    self.problems.append(str(error))
                self._known[path] = stamp, header
            if header is not None and (header.canvas_length or header.decision is not None):
                yield header, str(path)  # other runs were sent by a server as text only

    def ancestors(self, of: Iterable[TraceHeader], known: Iterable[str]) -> Iterator[Listed]:
        """Yields the ancestors of runs whose files still exist, without those with an id in ``known``."""
        seen = set(known)
        waiting = [header.parent.id for header in of if header.parent is not None]
        for _ in range(MAX_ANCESTORS):
            unseen = [id for id in dict.fromkeys(waiting) if id not in seen]
            if not unseen:
                return
            seen.update(unseen)
            parents = list(self.headers(self._folder / f"{id}{TRACE_SUFFIX}" for id in unseen))
            yield from parents
            waiting = [header.parent.id for header, _ in parents if header.parent is not None]


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
        self._looking = Background(self, self._looked)
        self.found = Look()

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
    def _looked(self, look: Look) -> None:
        problems, self._kept.problems = self._kept.problems, []
        if look != self.found:
            self.found = look
            self.changed.emit()
        if problems:
            self.failed.emit(problems)


Pieces = Callable[[TraceHeader], Piece | None]


def first_offers(
    gallery: Sequence[GalleryTrace], recent: Iterable[Listed], titles: Mapping[str, str] | None = None
) -> list[Offer]:
    """Returns the runs of the welcome page: the user's, then the gallery.

    ``titles`` are those of named runs, by key.
    """
    offers = []
    for header, key in recent:
        title = (titles or {}).get(key, "")[:MAX_TITLE] or title_in_words(header)
        hint = _line(kind_words(header), _when(header), run_title(header))
        offers.append(Offer(title, hint, key, tr("Your runs"), is_own=True))
    shipped = (Offer(tr(one.title), tr(one.note), str(one.path), tr("Gallery"), has_picture=True) for one in gallery)
    return [*offers, *shipped]


def other_offers(
    here: TraceHeader,
    session: Iterable[Listed],
    recent: Iterable[Listed],
    gallery: Iterable[Listed],
    titles: dict[str, str],
) -> list[Offer]:
    """Returns the runs that a run can be compared with, each once; those of the same prompt come first.

    Args:
        here: the header of the run itself, which is left out.
        titles: titles of the gallery's runs and of named ones, by key.
    """
    sections = ((tr("This session"), session), (tr("Your runs"), recent), (tr("Gallery"), gallery))
    candidates = [(header, key, section) for section, listed in sections for header, key in listed]
    seen = {here.id}
    offers = []
    for header, key, section in candidates:
        if header.id in seen:
            continue
        seen.add(header.id)
        of = titles.get(key, "")
        if asked(header) == asked(here):
            hint = _line(of or _when(header), asked_in_words(here, header))
            offers.append(Offer(run_title(header), hint, key, _alike()))
        else:
            hint = _line(kind_words(header), run_title(header))
            offers.append(Offer(of or title_in_words(header), hint, key, section))
    order = (_alike(), *(section for section, _ in sections))
    return sorted(offers, key=lambda offer: order.index(offer.section))


def run_tree(here: TraceHeader, listed: Iterable[Listed], titles: dict[str, str], pieces: Pieces) -> list[RunItem]:
    """Returns the open run with its ancestors and all forks of them, parents before their forks.

    A parent whose file is gone is included without a key, so that its forks stay together.

    Args:
        here: the header of the open run.
        listed: all known runs, including ``here``; the first one of each id counts.
        titles: titles of the gallery's runs and of named ones, by key.
        pieces: gives a run's function from token to text, if that is known.
    """
    headers: dict[str, Listed] = {}
    for header, key in listed:
        headers.setdefault(header.id, (header, key))
    in_order = sorted((header for header, _ in headers.values()), key=lambda header: header.created)
    parents = {header.id: header.parent.id if header.parent is not None else "" for header in in_order}
    parents |= {id: "" for id in parents if id in _above(id, parents)}
    family = _family(here.id, parents)
    lost = {parents[id]: headers[id][0] for id in parents if parents[id] in family and parents[id] not in headers}
    items = [RunItem(id, "", "", tr("{prompt} (no longer kept)", prompt=prompt_in_line(of))) for id, of in lost.items()]
    for header in in_order:
        if header.id in family:
            key = headers[header.id][1]
            changed = made_in_words(header, pieces(header)) if header.parent is not None else ""
            title = titles.get(key) or changed
            items.append(RunItem(header.id, parents[header.id], key, title or prompt_in_line(header)))
    return items


def _above(id: str, parents: dict[str, str]) -> list[str]:
    """Returns the ids of a run's ancestors, nearest first. Stops at a cycle, which a damaged file may claim."""
    ids: list[str] = []
    while (id := parents.get(id, "")) and id not in ids:
        ids.append(id)
    return ids


def _family(id: str, parents: dict[str, str]) -> set[str]:
    """Returns the ids of all runs related to a run, including unknown parents."""
    first = [id, *_above(id, parents)][-1]
    return {first} | {other for other in parents if first in _above(other, parents)}


def _when(header: TraceHeader) -> str:
    return header.created_at.astimezone().strftime("%Y-%m-%d %H:%M")


def _line(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _alike() -> str:
    return tr("The same prompt")
