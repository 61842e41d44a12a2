"""Folders of traces: the user's own, kept private and within a size, and the gallery that ships with the app.

Links out of the user's folder are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.catalog import ASSETS
from engine.errors import SafelightError
from engine.files import read_json, read_text, write_text
from engine.trace.format import SUFFIX
from engine.trace.reader import read_header

BUDGET_BYTES = 2 * 10**9
NEWEST = 50  # traces that are never removed
NAME, REMOVED = ".name", ".removed"  # suffixes of the name that a user gave a trace, and of one that is being removed
LONGEST_NAME = 200  # characters
GALLERY = ASSETS / "traces"
GALLERY_LIST = "gallery.json"


def trace_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the traces in a folder, which need not exist: regular files only, no links, pipes or folders."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it was just removed
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def name_of(path: Path) -> str:
    """Returns the name that the user gave a trace; empty if there is none."""
    with suppress(SafelightError):
        return " ".join(read_text(path.with_suffix(NAME), 4 * LONGEST_NAME).split())[:LONGEST_NAME]
    return ""


def name_trace(path: Path, name: str) -> None:
    """Gives a trace a name, in a file next to it; an empty one takes the name away.

    Raises:
        SafelightError: it cannot be written.
    """
    name = " ".join(name.split())[:LONGEST_NAME]
    if name:
        write_text(path.with_suffix(NAME), name, private=True)
        return
    try:
        path.with_suffix(NAME).unlink(missing_ok=True)
    except OSError as error:
        raise SafelightError(f"{path.with_suffix(NAME)} cannot be removed: {error.strerror or error}") from error


def forks_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the id of the origin and the file of each fork in a folder; "" as the origin of other traces."""
    for path, _ in trace_files(folder):
        with suppress(SafelightError):
            parent = read_header(path)[0].parent
            yield (parent.id if parent is not None else ""), path


def with_forks(
    folder: Path, ids: Iterable[str], forks: Mapping[str, Sequence[Path]], kept: Container[str] = ()
) -> list[Path]:
    """Returns the files of traces, and of all forks of them but those in ``kept`` and what was forked from these."""
    paths: set[Path] = set()
    waiting = [folder / f"{id}{SUFFIX}" for id in ids]
    while waiting:
        path = waiting.pop()
        if path not in paths:
            paths.add(path)
            waiting += (fork for fork in forks.get(path.stem, ()) if fork.stem not in kept)
    return sorted(paths)


@contextmanager
def removing(paths: Iterable[Path]) -> Iterator[None]:
    """Removes traces with their names once the block has ended; none if it fails or one of them cannot be removed.

    Missing ones are ignored.

    Raises:
        SafelightError: one cannot be removed, as on Windows while a program has it open.
    """
    moved: list[Path] = []
    try:
        for path in paths:
            try:
                path.replace(path.with_suffix(REMOVED))
                moved.append(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                why = error.strerror or error
                raise SafelightError(
                    f"the run {path} cannot be deleted ({why}), so nothing was. Close the run, or the program that has "
                    "it open, then try again"
                ) from error
        yield
    except BaseException:
        for path in moved:
            with suppress(OSError):
                path.with_suffix(REMOVED).replace(path)
        raise
    for path in moved:
        for suffix in (REMOVED, NAME):
            with suppress(OSError):
                path.with_suffix(suffix).unlink(missing_ok=True)


def end_removing(folder: Path, kept: Container[str]) -> None:
    """Ends what a crash broke off in ``removing``: the traces with ids in ``kept`` are put back, the others go."""
    for path in folder.glob(f"*{REMOVED}"):
        with suppress(OSError):
            if path.stem in kept:
                path.replace(path.with_suffix(SUFFIX))
            else:
                path.unlink()


def prune_traces(folder: Path, budget: int = BUDGET_BYTES, newest: int = NEWEST) -> int:
    """Removes the oldest traces of a folder until the rest is within ``budget`` bytes; never the ``newest`` ones.

    A trace that cannot be removed stays. A missing folder needs no pruning.

    Returns:
        The number of removed traces.
    """
    with suppress(OSError):
        for left in folder.glob(f"*{REMOVED}"):  # by a crash
            left.unlink()
    traces = sorted((status.st_mtime_ns, str(path), status.st_size) for path, status in trace_files(folder))
    total = sum(size for _, _, size in traces)
    removed = 0
    for _, place, size in traces[: max(0, len(traces) - newest)]:
        if total <= budget:
            break
        try:
            Path(place).unlink()
        except OSError:
            continue
        with suppress(OSError):
            Path(place).with_suffix(NAME).unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed


@dataclass(frozen=True)
class GalleryTrace:
    """A trace that ships with the app: its title, and a note on what to watch in it."""

    path: Path
    title: str
    note: str


def gallery(folder: Path = GALLERY) -> tuple[GalleryTrace, ...]:
    """Returns the traces of the gallery, in order.

    Raises:
        SafelightError: its list is missing or damaged.
    """
    listed: Any = read_json(folder / GALLERY_LIST).get("traces")
    try:
        return tuple(GalleryTrace(folder / str(one["file"]), str(one["title"]), str(one["note"])) for one in listed)
    except (TypeError, KeyError) as error:
        raise SafelightError(f"{folder / GALLERY_LIST} is damaged ({error!r}); install Safelight again") from error
