"""Downloads a model into the Hugging Face cache: resumable, verified, and named by ``refs/main`` once it is whole.

Knows neither torch nor Qt; ``huggingface_hub`` is imported when it is needed.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from engine.errors import SafelightError
from engine.files import private_folder
from engine.hub.progress import ByteCounter, DownloadProgress, Report, StoppedError
from engine.hub.record import SUFFIX, ClosedError, Record, record_of
from engine.hub_cache import cache_folder, delete, is_repo, repo_folder, snapshot_of

__all__ = ["ClosedError", "DownloadProgress", "Record", "discard", "download", "is_token", "unfinished"]

Ended = Literal["ready", "paused", "cancelled"]


def unfinished(folder: Path) -> tuple[Record, ...]:
    """Returns the unfinished downloads of a data folder, including those of a killed session."""
    repos = (path.name.removesuffix(SUFFIX).replace("--", "/", 1) for path in sorted(folder.glob("*" + SUFFIX)))
    return tuple(record for repo in repos if is_repo(repo) and (record := Record.read(repo, folder)) is not None)


def is_token(token: str) -> bool:
    """Returns True if it can be sent as an access token: visible ASCII."""
    return 0 < len(token) <= 500 and all("!" <= sign <= "~" for sign in token)


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
    check: Callable[[Path], None] | None = None,
) -> Ended:
    """Downloads a model's files into the cache, or resumes at the byte where it stopped.

    Args:
        repo: ``owner/name``.
        folder: the data folder, which keeps the record of what is not finished.
        endpoint: the hub's address; None takes the usual one.
        token: an access token for gated models; None takes that of the library, if it has one.
        offline: refuse before anything is sent.
        progress: called from this thread, about ten times a second, also while nothing arrives.
        pause: once set, ends the download within a moment and keeps its files.
        cancel: once set, ends the download and removes its files.
        check: called with the snapshot when all files but the weights are there, before any weights are requested; an
            exception from it ends the download.

    Raises:
        SafelightError: the fault in one sentence, with the next step. Files stay.
    """
    place = repo_folder(repo)
    if offline:
        raise SafelightError("offline is on, so nothing is downloaded; turn it off in the settings first")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SafelightError(f"the environment variable {name} forbids downloads; unset it and start again")
    if token and not is_token(token):
        raise ClosedError("the access token contains invalid characters; enter it again")
    record = Record.read(repo, folder)
    if record is None and snapshot_of(repo) is not None:
        return "ready"
    counter = ByteCounter(progress, tuple(flag for flag in (pause, cancel) if flag is not None))
    try:
        counter.tick(0)
        from engine.hub.client import Client  # the library, which takes a quarter of a second

        client = Client(repo, endpoint, token, counter)
        if record is None:
            record = client.listing()
            _require_disk(record)
            private_folder(folder)
            record.write(folder)
        else:
            _require_disk(record)
        counter.total = record.total_bytes
        for file in record.files:  # the weights are last
            if check is not None and file.is_weights:
                check(record.snapshot)
                check = None
            if not record.has(file):
                client.fetch(file, record)
        (place / "refs").mkdir(exist_ok=True)
        (place / "main.incomplete").write_text(record.revision)
        os.replace(place / "main.incomplete", place / "refs" / "main")
        record_of(repo, folder).unlink()
        counter.enter("downloading", "", 0, counter.total)
        counter.report("downloading")
    except StoppedError:
        if cancel is not None and cancel.is_set():
            discard(repo, folder)
            return "cancelled"
        return "paused"
    except OSError as error:
        why = error.strerror or error
        raise SafelightError(
            f"{place} cannot be written ({why}); check the folder of the Hugging Face cache"
        ) from error
    return "ready"


def discard(repo: str, folder: Path) -> None:
    """Removes the files of an unfinished download from the cache; what was there before it stays.

    Raises:
        SafelightError: a file cannot be removed.
    """
    if (record := Record.read(repo, folder)) is None:
        return
    try:
        for file in record.files:
            record.part(file).unlink(missing_ok=True)
        if record.snapshot.exists():
            delete(record.snapshot, {file.name for file in record.files})
        record_of(repo, folder).unlink()
    except OSError as error:
        raise SafelightError(f"{repo} cannot be removed ({error.strerror or error}); remove it yourself") from error


def _require_disk(record: Record) -> None:
    folder = cache_folder()
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    needed, free = record.total_bytes - record.done_bytes, shutil.disk_usage(place).free
    if needed > free:
        raise SafelightError(
            f"{record.repo} needs {needed / 1e9:.2f} GB more and {place} has {free / 1e9:.2f} GB free; free "
            f"{(needed - free) / 1e9:.2f} GB, or name another folder in HF_HUB_CACHE, then resume"
        )
