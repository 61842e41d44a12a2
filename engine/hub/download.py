"""Downloads a model from a hub, completely or not at all: resumable, verified, moved into place at the end.

A download lies in ``FOLDER/OWNER--NAME.partial`` with a record of its files; an incomplete or unverified file ends in
``.part``. When every hash is right, the ending is removed from the folder's name, and only then is it a model. Only
files that the record names are deleted, renamed or written, as the folder may come from a stranger. Files here are
renamed without ``engine.files.replacing``: a part must outlive the process to be resumed. Its bytes are synced to disk
before it is verified and renamed. Knows neither torch nor Qt; the hub's client is imported when a download begins.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine import windows
from engine.errors import SafelightError
from engine.files import clear, private_folder, read_json
from engine.hub.names import UNFINISHED, folder_name, repo_of
from engine.hub.progress import ByteCounter, DownloadProgress, Report, StoppedError
from engine.hub.record import PART, RECORD, ClosedError, Record, RemoteFile, is_begun, is_own, listed, matches, size_of
from engine.store_files import MANIFEST  # a packed store lists the hashes of its own files
from engine.types import Cancel

if TYPE_CHECKING:
    from engine.hub.client import Hub, Patience

__all__ = [
    "UNFINISHED", "ClosedError", "DownloadProgress", "Ended", "Partial", "discard", "download", "is_verified",
    "model_folder", "partial_of", "partials", "require_network", "verify",
]  # fmt: skip

Ended = Literal["ready", "paused", "cancelled"]
Check = Callable[[Path], None]


@dataclass(frozen=True)
class Partial:
    """A download that is not finished."""

    repo: str
    folder: Path
    done_bytes: int
    total_bytes: int  # 0 if the hub has not been asked yet


def model_folder(repo: str, folder: Path) -> Path:
    """Returns the folder of a repository's model once it is complete.

    Raises:
        SafelightError: ``repo`` is not ``owner/name``.
    """
    return folder / folder_name(repo)


def partials(folder: Path) -> tuple[Partial, ...]:
    """Returns the unfinished downloads in a data folder, including those of a killed session."""
    found = (partial_of(path) for path in sorted(folder.glob("*" + UNFINISHED)))
    return tuple(part for part in found if part is not None)


def partial_of(work: Path) -> Partial | None:
    """Returns the state of an unfinished download's folder; None if its name is not that of one."""
    repo = repo_of(work.name)
    if repo is None or os.path.islink(work) or not os.path.isdir(work):
        return None
    record = Record.read(work)
    if record is None:
        return Partial(repo, work, 0, 0)
    return Partial(repo, work, record.done_bytes(work), record.total_bytes)


def is_verified(model: Path) -> bool:
    """Returns True if a folder is a finished download: its name, its record, and each file with its full size."""
    record = Record.read(model) if not model.name.endswith(UNFINISHED) else None
    return record is not None and not record.missing(model)


def download(
    repo: str,
    folder: Path,
    *,
    endpoint: str | None = None,
    token: str | None = None,
    offline: bool = False,
    progress: Report | None = None,
    pause: threading.Event | None = None,
    cancel: threading.Event | None = None,
    patience: Patience | None = None,
    check: Check | None = None,
) -> Ended:
    """Downloads a model's files, or resumes at the byte where it stopped.

    Args:
        repo: ``owner/name``.
        folder: the data folder; the model is stored in ``model_folder(repo, folder)``.
        endpoint: the hub's address; None takes the usual one.
        token: an access token for gated models; no other token on this machine is used.
        offline: refuse before anything is sent.
        progress: called from this thread, about ten times a second.
        pause: once set, ends the download and keeps its files.
        cancel: once set, ends the download and removes its files.
        check: called with the folder when all files but the weights are there, before any weights are requested; an
            exception from it ends the download.

    Raises:
        SafelightError: the fault in one sentence, with the next step. Files stay.
    """
    if offline:
        raise SafelightError("offline is on, so nothing is downloaded; turn it off in the settings first")
    target = model_folder(repo, folder)
    if is_verified(target):
        return "ready"
    work = target.with_name(target.name + UNFINISHED)
    is_incomplete = _find_earlier(target, work)
    from engine.hub.client import Hub, Patience  # imports the HTTP library, which is needed only for downloads

    flags = tuple(flag for flag in (pause, cancel) if flag is not None)
    try:
        hub = Hub(repo, endpoint, token, patience or Patience())
        hub.require_network()
        if is_incomplete:
            windows.retried(os.rename, target, work)
        _fetch_missing(hub, work, progress, flags, check)
        windows.retried(os.rename, work, target)
    except StoppedError:
        if cancel is not None and cancel.is_set():
            discard(repo, folder)
            return "cancelled"
        return "paused"
    except OSError as error:
        raise SafelightError(
            f"{work} cannot be written ({error.strerror or error}); check the data folder, then resume"
        ) from error
    return "ready"


def _find_earlier(target: Path, work: Path) -> bool:
    """Returns True if ``target`` is an earlier download of ours, of which files were removed.

    Raises:
        SafelightError: ``target`` or ``work`` is somebody else's.
    """
    begun = Record.read(target) if not os.path.lexists(work) else None
    if os.path.lexists(target) and begun is None:
        raise SafelightError(f"{target} exists and is not a download of Safelight; move it away first")
    place = work if begun is None else target
    if os.path.lexists(place):
        _require_ours(place)
    return begun is not None


def require_network(endpoint: str | None = None) -> None:
    """Checks that there is a network, before more is done for a download.

    Raises:
        SafelightError: there is none, or the environment forbids downloads.
    """
    from engine.hub.client import Hub  # as in ``download``

    Hub("", endpoint).require_network()


def discard(repo: str, folder: Path) -> None:
    """Removes the files of an unfinished download; other content of its folder stays.

    Raises:
        SafelightError: the folder is not ours, holds more, or a file cannot be removed.
    """
    target = model_folder(repo, folder)
    work = target.with_name(target.name + UNFINISHED)
    if not os.path.lexists(work):  # the download was finished once, and a file was removed since
        work = target
    if not os.path.lexists(work) or is_verified(work):
        return
    record = _require_ours(work)
    clear(work, is_own if record is None else record.owns, RECORD)


def verify(model: Path, progress: Report | None = None, cancel: Cancel | None = None) -> bool:
    """Reads a whole downloaded or packed model, and compares its hashes.

    A download with damaged files stops being a model: they are removed, and resuming it fetches them again.

    Returns:
        True if it was read to the end; False after ``cancel``.

    Raises:
        SafelightError: files are damaged or missing, or the folder has no hashes to compare with.
    """
    record = Record.read(model)
    if record is None and not os.path.lexists(model / MANIFEST):
        raise SafelightError(f"{model} came without hashes, so it cannot be verified")
    files = record.files if record is not None else _manifest_files(model)
    flags = (cancel,) if cancel is not None else ()
    counter = ByteCounter(sum(file.bytes for file in files), 0, progress, flags, "checking")
    damaged = []
    try:
        for file in files:
            counter.enter("checking", file.name)
            if not matches(model / file.name, file, counter.add):
                damaged.append(file.name)
    except StoppedError:
        return False
    except OSError as error:
        raise SafelightError(f"{model} cannot be read ({error.strerror or error}); check the disk") from error
    counter.report()
    if not damaged:
        return True
    names = ", ".join(damaged)
    if record is None:
        raise SafelightError(f"{model} is damaged ({names}); delete it and convert the model again")
    work = model.with_name(model.name + UNFINISHED)
    if os.path.lexists(work):
        raise SafelightError(f"{model} is damaged ({names}), and {work} is in the way; move that away, then try again")
    try:
        windows.retried(os.rename, model, work)
        for name in damaged:
            if size_of(work / name) is not None:  # anything but a file is not ours
                (work / name).unlink()
    except OSError as error:
        raise SafelightError(f"{model} is damaged ({names}); delete it and download it again") from error
    raise SafelightError(f"damaged: {names}; resume the download, which fetches only what is missing")


def _fetch_missing(
    hub: Hub, work: Path, progress: Report | None, flags: tuple[Cancel, ...], check: Check | None
) -> None:
    """Fetches and verifies all missing files, the weights last."""
    record = Record.read(work)
    if record is None:
        record = hub.listing(ByteCounter(0, 0, progress, flags))
        _require_disk(work, record)
        private_folder(work)
        record.write(work)
    else:
        _require_disk(work, record)
    counter = ByteCounter(record.total_bytes, record.done_bytes(work), progress, flags)
    missing = record.missing(work)
    for of_weights in (False, True):
        if of_weights and check is not None:
            check(work)
        for file in (file for file in missing if file.is_weights == of_weights):
            if size_of(work / file.name) is not None:  # it was changed
                counter.add(-file.done_bytes(work))
                (work / file.name).unlink()
            _fetch_file(hub, file, record.revision, work, counter)
    counter.report()


def _fetch_file(hub: Hub, file: RemoteFile, revision: str, work: Path, counter: ByteCounter) -> None:
    """Fetches one file and verifies it; a wrong one is fetched once more from the start."""
    part = work / (file.name + PART)
    private_folder(part.parent)
    if (size_of(part) or 0) > file.bytes:
        counter.add(-file.bytes)
        part.unlink()
    for _ in range(2):
        counter.enter("downloading", file.name)
        hub.fetch(file, revision, part, counter)
        counter.enter("checking", file.name)
        if matches(part, file, lambda _count: counter.check()):
            windows.retried(os.replace, part, work / file.name)
            return
        part.unlink()
        counter.add(-file.bytes)
    raise SafelightError(f"{file.name} of {hub.repo} arrived damaged twice and was removed. Resume later")


def _require_ours(work: Path) -> Record | None:
    """Returns the record of an unfinished download; None if it was not written yet and the folder is empty.

    Raises:
        SafelightError: the folder is not ours, or something else has the name of a file of ours.
    """
    record = Record.read(work)
    if record is None and not is_begun(work):
        raise SafelightError(
            f"{work} has no record of a Safelight download, so nothing in it is touched; move "
            "it away, then download again"
        )
    names = [file.name + ending for file in record.files for ending in ("", PART)] if record is not None else []
    for path in (work / name for name in names):
        if os.path.lexists(path) and size_of(path) is None:
            raise SafelightError(f"{path} is not part of this download; move it away, then try again")
    return record


def _require_disk(work: Path, record: Record) -> None:
    place = next(parent for parent in (work, *work.parents) if parent.exists())
    needed, free = record.total_bytes - record.done_bytes(work), shutil.disk_usage(place).free
    if needed > free:
        raise SafelightError(
            f"{record.repo} needs {needed / 1e9:.2f} GB more and {place} has {free / 1e9:.2f} GB free; free "
            f"{(needed - free) / 1e9:.2f} GB or choose another data folder, then resume"
        )


def _manifest_files(model: Path) -> tuple[RemoteFile, ...]:
    """Reads the files of a packed store's manifest.

    Raises:
        SafelightError: the manifest is damaged.
    """
    manifest = read_json(model / MANIFEST)
    try:
        shards = manifest["files"].items()
        return listed(RemoteFile(name, shard["bytes"], shard["sha256"]) for name, shard in shards)
    except (KeyError, TypeError, AttributeError) as error:
        raise SafelightError(f"{model / MANIFEST} is damaged; convert the model again") from error
    except SafelightError as error:
        raise SafelightError(f"{model / MANIFEST} is damaged ({error}); convert the model again") from error
