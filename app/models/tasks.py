"""The jobs of the page, each a function for a thread of ``app.models.jobs``. Knows no widgets.

The engine's slow imports are inside these functions, so that they run in the thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Concatenate, ParamSpec

from app.models.entries import ModelEntry
from app.models.jobs import Control
from app.state.models.recommendation import CARD, CONTEXT
from app.system.i18n import tr
from app.system.secret import Secret
from engine import PUBLISHED, SafelightError, found, hub_cache
from engine.files import clear, is_plain_file
from engine.hub import download as downloads
from engine.hub.record import DownloadProgress
from engine.memory.machine import Machine
from engine.model_files import is_gguf
from engine.store_files import PARTIAL, is_of_a_conversion

P = ParamSpec("P")
Work = Callable[[Control], object]
GOING = ".safelight-deleted"  # suffix of a folder that is being deleted
LONGEST_TOKEN = 500


def _job(work: Callable[Concatenate[Control, P], object]) -> Callable[P, Work]:
    """Makes of a function that takes a ``Control`` first one that takes the others, and returns the job."""
    return lambda *args, **named: lambda control: work(control, *args, **named)


@_job
def download(control: Control, entry: ModelEntry, endpoint: str | None, tokens: Secret) -> None:
    """Downloads a model or resumes its download; its small files are downloaded and checked before the weights."""
    from engine.models.model import check_small_files  # imports torch

    downloads.download(
        entry.repo,
        endpoint=endpoint,
        token=tokens.read() or None,
        progress=_passed_on(control),
        stop=control,
        check=check_small_files,
    )
    if control.cancel.is_set():
        downloads.discard(entry.repo)


@_job
def convert(control: Control, source: Path, destination: Path) -> bool | None:
    """Packs a model folder or a GGUF file into 4 bits; cancelling deletes what was written, pausing keeps it.

    Returns True, or None if it was stopped.
    """
    control.report(0.0, stage="starting", now=True)
    from engine.memory.device import choose  # imports torch
    from engine.weights.packed_store import Manifest  # imports torch

    pack: Callable[..., Manifest]
    if is_gguf(source):
        from engine.models.gguf_import import import_gguf as pack  # imports torch
    else:
        from engine.models.folder import quantize as pack  # imports torch
    try:
        pack(source, destination, "auto", choose("auto").device, control.report, control)
        return True
    except SafelightError:
        if not control.is_set():
            raise
        if control.cancel.is_set():
            _discard_conversion(destination)
    return None


@_job
def delete(_control: Control, entry: ModelEntry, folder: Path) -> object:
    """Deletes a model from the data folder ``folder``, or from the Hugging Face cache; returns the bytes freed."""
    if hub_cache.repo_of(entry.folder) is not None:
        return hub_cache.delete(entry.folder)
    if entry.folder.parent != folder:
        raise SafelightError(f"{entry.folder} is not in {folder}, so it is not deleted")
    _remove(entry.folder)
    return entry.bytes_here


@_job
def discard(_control: Control, entry: ModelEntry) -> None:
    """Deletes the files of an unfinished download or conversion."""
    if entry.state == "unpacked":
        _discard_conversion(entry.folder)
    else:
        downloads.discard(entry.repo)


@_job
def plan(_control: Control, entry: ModelEntry, machine: Callable[[], Machine]) -> object:
    """Plans the memory that a model needs on this computer."""
    from engine.models.opening import plan_model  # imports torch

    place = machine().device
    if entry.is_ready or entry.state == "gguf":
        return plan_model(entry.load_id or entry.folder, device=place)
    return plan_model(entry.shape, quantization=entry.quantization, device=place)


@_job
def find(_control: Control, added: Sequence[Path]) -> object:
    """Looks for models in the stores of other programs and in ``added`` folders, which are kept for the terminal."""
    with contextlib.suppress(SafelightError):  # the window finds them without it
        found.keep(added)
    return found.scan(added)


@_job
def look(_control: Control, machine: Callable[[], Machine]) -> object:
    """Describes this computer, and plans for the models that may be recommended.

    The result is the computer, and the plans by choice.
    """
    from engine.models.opening import plan_model  # imports torch

    here, models = machine(), {model.repo: model for model in PUBLISHED}
    place = here.device if here.is_usable else "cpu"
    plans = {(repo, how): plan_model(models[repo].shape, CONTEXT, how, place) for repo, how in CARD}
    return here, plans


@_job
def keep_token(_control: Control, tokens: Secret, token: str) -> object:
    """Stores the token, or removes the stored one if it is empty; returns where it is stored."""
    if len(token) > LONGEST_TOKEN or not all("!" <= sign <= "~" for sign in token):
        raise SafelightError(tr("This access token has invalid characters. Enter it again."))
    return tokens.write(token)


def _passed_on(control: Control) -> Callable[[DownloadProgress], None]:
    def report(progress: DownloadProgress) -> None:
        control.report(
            progress.done_bytes / max(progress.total_bytes, 1),
            progress.done_bytes,
            progress.total_bytes,
            progress.bytes_per_second,
            progress.stage,
            (progress.file, progress.file_done, progress.file_bytes),
            now=progress.stage == "waiting",
        )

    return report


def _discard_conversion(folder: Path) -> None:
    """Deletes the files of an unfinished conversion.

    Raises:
        SafelightError: a file cannot be removed, or the folder holds files that a conversion does not write.
    """
    if not os.path.lexists(folder):
        return
    if not is_plain_file(folder / PARTIAL) or folder.is_symlink():
        raise SafelightError(tr("Safelight did not make the conversion in {folder}; remove it yourself", folder=folder))
    clear(folder, is_of_a_conversion, PARTIAL)


def _remove(folder: Path) -> None:
    """Deletes a folder with its content; of a link, only the link.

    Raises:
        SafelightError: a file cannot be removed.
    """
    try:
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            going = folder.with_name(f".{token_hex(8)}{GOING}")  # a half-deleted model must not look like one
            folder.rename(going)
            shutil.rmtree(going)
    except OSError as error:
        raise SafelightError(f"{folder} cannot be removed ({error.strerror or error}); remove it yourself") from error


@_job
def sweep(_control: Control, folder: Path) -> None:
    """Finishes deletions that were interrupted."""
    for going in folder.glob("." + "[0-9a-f]" * 16 + GOING):
        shutil.rmtree(going, ignore_errors=True)  # does not delete what a link points to
