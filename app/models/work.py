"""What the page's jobs do, each a function for a thread of ``app.models.jobs``. Knows no widgets.

The engine's heavy parts are imported here, in the thread, and not before.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from app.models.entries import Entry
from app.models.jobs import Control
from app.tokens import TokenStore
from engine import SafelightError, downloads
from engine.downloads import DownloadProgress

Work = Callable[[Control], object]


def download(entry: Entry, folder: Path, endpoint: str | None, tokens: TokenStore, offline: threading.Event) -> Work:
    """Fetch a model, or go on with it."""

    def work(control: Control) -> object:
        return downloads.download(
            entry.repo,
            folder,
            endpoint=endpoint,
            token=None if offline.is_set() else tokens.read() or None,
            offline=offline.is_set(),
            progress=_passed_on(control),
            pause=control.pause,
            cancel=control.cancel,
        )

    return work


def verify(entry: Entry) -> Work:
    """Compare all hashes."""

    def work(control: Control) -> object:
        return downloads.verify(entry.folder, _passed_on(control), control.cancel)

    return work


def convert(source: Path, destination: Path) -> Work:
    """Pack a model into 4 bits; cancelling removes what was written, pausing keeps it."""

    def work(control: Control) -> object:
        from engine.device import choose
        from engine.weights.loader import quantize

        control.tell(0.0, stage="starting", now=True)
        try:
            quantize(source, destination, "auto", choose("auto").device, control.tell, control)
        except SafelightError:
            if not control.stopped:
                raise
            if control.cancel.is_set():
                _remove(destination)
        return None

    return work


def delete(folder: Path) -> Work:
    """Remove a model, or what there is of one."""

    def work(_control: Control) -> object:
        _remove(folder)
        return None

    return work


def discard(entry: Entry, folder: Path) -> Work:
    """Remove an unfinished download."""

    def work(_control: Control) -> object:
        downloads.discard(entry.repo, folder)
        return None

    return work


def plan(entry: Entry) -> Work:
    """Count the memory it takes."""

    def work(_control: Control) -> object:
        from engine.memory import plan as count

        if entry.is_ready:
            return count(entry.load_id)
        return count(entry.shape, quantization="int4" if entry.is_packed else "auto")

    return work


def keep_token(tokens: TokenStore, token: str) -> Work:
    """Store the token, or forget an empty one's predecessor; the result says where it is."""

    def work(_control: Control) -> object:
        return tokens.write(token)

    return work


def _passed_on(control: Control) -> Callable[[DownloadProgress], None]:
    def tell(progress: DownloadProgress) -> None:
        control.tell(
            progress.share,
            progress.done_bytes,
            progress.total_bytes,
            progress.bytes_per_second,
            progress.stage,
        )

    return tell


def _remove(folder: Path) -> None:
    """
    Raises:
        SafelightError: a file cannot be removed.
    """
    if not folder.exists():
        return
    going = folder.with_name(f".{folder.name}.deleted")  # half a model must not look like one
    try:
        if going.exists():
            shutil.rmtree(going)
        folder.rename(going)
        shutil.rmtree(going)
    except OSError as error:
        raise SafelightError(f"{folder} cannot be removed ({error.strerror or error}); remove it by hand") from error


def sweep(folder: Path) -> Work:
    """Finish deletions that were interrupted."""

    def work(_control: Control) -> object:
        for going in folder.glob(".*.deleted"):
            shutil.rmtree(going, ignore_errors=True)
        return None

    return work
