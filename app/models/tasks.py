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

Work = Callable[[Control], object]
GOING = ".safelight-deleted"  # suffix of a folder that is being deleted
LONGEST_TOKEN = 500


def download(entry: ModelEntry, endpoint: str | None, tokens: Secret) -> Work:
    """Downloads a model or resumes its download; its small files are downloaded and checked before the weights."""

    def work(control: Control) -> object:
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
        return None

    return work


def convert(source: Path, destination: Path) -> Work:
    """Packs a model folder or a GGUF file into 4 bits; cancelling deletes what was written, pausing keeps it.

    Returns True, or None if it was stopped.
    """

    def work(control: Control) -> object:
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

    return work


def delete(entry: ModelEntry, folder: Path) -> Work:
    """Deletes a model from the data folder ``folder``, or from the Hugging Face cache; returns the bytes freed."""

    def work(_control: Control) -> object:
        if hub_cache.repo_of(entry.folder) is not None:
            return hub_cache.delete(entry.folder)
        if entry.folder.parent != folder:
            raise SafelightError(f"{entry.folder} is not in {folder}, so it is not deleted")
        _remove(entry.folder)
        return entry.bytes_here

    return work


def discard(entry: ModelEntry) -> Work:
    """Deletes the files of an unfinished download or conversion."""

    def work(_control: Control) -> object:
        if entry.state == "unpacked":
            _discard_conversion(entry.folder)
        else:
            downloads.discard(entry.repo)
        return None

    return work


def plan(entry: ModelEntry, machine: Callable[[], Machine]) -> Work:
    """Plans the memory that a model needs on this computer."""

    def work(_control: Control) -> object:
        from engine.models.opening import plan_model  # imports torch

        place = machine().device
        if entry.is_ready or entry.state == "gguf":
            return plan_model(entry.load_id or entry.folder, device=place)
        return plan_model(entry.shape, quantization=entry.quantization, device=place)

    return work


def find(added: Sequence[Path]) -> Work:
    """Looks for models in the stores of other programs and in ``added`` folders, which are kept for the terminal."""

    def work(_control: Control) -> object:
        with contextlib.suppress(SafelightError):  # the window finds them without it
            found.keep(added)
        return found.scan(added)

    return work


def look(machine: Callable[[], Machine]) -> Work:
    """Describes this computer, and plans for the models that may be recommended.

    The result is the computer, and the plans by choice.
    """

    def work(_control: Control) -> object:
        from engine.models.opening import plan_model  # imports torch

        here, models = machine(), {model.repo: model for model in PUBLISHED}
        place = here.device if here.is_usable else "cpu"
        plans = {(repo, how): plan_model(models[repo].shape, CONTEXT, how, place) for repo, how in CARD}
        return here, plans

    return work


def keep_token(tokens: Secret, token: str) -> Work:
    """Stores the token, or removes the stored one if it is empty; returns where it is stored."""

    def work(_control: Control) -> object:
        if len(token) > LONGEST_TOKEN or not all("!" <= sign <= "~" for sign in token):
            raise SafelightError(tr("This access token has invalid characters. Enter it again."))
        return tokens.write(token)

    return work


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


def sweep(folder: Path) -> Work:
    """Finishes deletions that were interrupted."""

    def work(_control: Control) -> object:
        for going in folder.glob("." + "[0-9a-f]" * 16 + GOING):
            shutil.rmtree(going, ignore_errors=True)  # does not delete what a link points to
        return None

    return work
