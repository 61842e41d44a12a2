"""Downloads a model into the Hugging Face cache: resumable, verified, and named by ``refs/main`` once it is whole.

Knows neither torch nor Qt; ``huggingface_hub`` is imported when it is needed.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

from engine.errors import SafelightError
from engine.files import explained, write_text
from engine.hub.record import MARK, DownloadProgress, Record
from engine.hub_cache import REPOSITORY, cache_folder, delete, repo_folder, snapshot_of
from engine.types import Cancel


def unfinished() -> tuple[Record, ...]:
    """Returns the unfinished downloads in the cache, including those of a killed session."""
    marks = sorted(cache_folder().glob(f"{REPOSITORY}*/{MARK}"))
    names = (mark.parent.name.removeprefix(REPOSITORY).replace("--", "/", 1) for mark in marks)
    return tuple(record for name in names if (record := Record.read(name)) is not None)


def download(
    repo: str,
    *,
    endpoint: str | None = None,
    token: str | None = None,
    stop: Cancel | None = None,
    progress: Callable[[DownloadProgress], None] = lambda _: None,
    check: Callable[[Path], object] = bool,
) -> bool:
    """Downloads a model's files into the cache, or resumes at the byte where it stopped.

    Args:
        repo: ``owner/name``.
        endpoint: the hub's address; None takes the usual one.
        token: an access token for gated models; None takes that of the library, if it has one.
        stop: once set, ends the download within a moment; what is here stays, to be resumed or discarded.
        progress: called from this thread, about ten times a second, also while nothing arrives.
        check: called with the snapshot before any weights are requested; an exception from it ends the download.

    Returns:
        True if the model is here; False after ``stop``.

    Raises:
        SafelightError: the fault in one sentence, with the next step. Files stay.
    """
    place, record = repo_folder(repo), Record.read(repo)
    if record is None and snapshot_of(repo) is not None:
        return True
    from engine.hub.client import Client  # the library, which takes a quarter of a second

    client = Client(repo, endpoint, token, stop or threading.Event())
    try:
        client.record = record = record or client.wait_for(client.listing, progress)
        _require_disk(record)
        record.write()
        first = next((file for file in record.files if file.is_weights), None)  # they are the last
        for file in record.files:
            if file is first:
                check(record.snapshot)
            if not record.has(file):
                client.file = file
                client.wait_for(client.fetch, progress)
        (place / "refs").mkdir(exist_ok=True)
        write_text(place / "refs" / "main", record.revision)
        (place / MARK).unlink()
    except CancelledError:
        return False
    except OSError as error:
        raise explained(error, place) from error
    return True


def discard(repo: str) -> None:
    """Removes the files of an unfinished download from the cache; what was there before it stays.

    Raises:
        SafelightError: a file cannot be removed.
    """
    if (record := Record.read(repo)) is None:
        return
    try:
        for file in record.files:
            record.part(file).unlink(missing_ok=True)
        delete(record.snapshot, {file.name for file in record.files})
        (repo_folder(repo) / MARK).unlink(missing_ok=True)
    except OSError as error:
        raise SafelightError(f"{repo} cannot be removed ({error.strerror or error}); remove it yourself") from error


def _require_disk(record: Record) -> None:
    folder = cache_folder()
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    needed, free = record.total_bytes - record.done_bytes, shutil.disk_usage(place).free
    if needed > free:
        raise SafelightError(
            f"{record.repo} needs {needed / 1e9:.2f} GB more and {place} has {free / 1e9:.2f} GB free; free "
            f"{(needed - free) / 1e9:.2f} GB, or name another folder in HF_HUB_CACHE, then resume"
        )
