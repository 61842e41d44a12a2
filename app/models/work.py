"""Turns the actions on a model into jobs: download, pack, check, delete. Knows no rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from app.models import tasks, words
from app.models.entries import PACKED, Action, ModelEntry
from app.models.jobs import Jobs, ModelJob
from app.models.question import ask
from app.system.i18n import tr
from app.system.secret import Secret

WORTH_ASKING = 100_000_000  # bytes; less is cancelled without a question


class ModelWork(QObject):
    """Starts the jobs for ``entries``. The caller owns these, and they are read again for each action.

    Args:
        page: the parent of the question that is asked before files are deleted.
        refresh: reads the entries from the disk again.
    """

    changed = Signal()  # the actions possible on other models changed
    refused = Signal(str, str)  # key, and why

    def __init__(
        self,
        jobs: Jobs,
        entries: Mapping[str, ModelEntry],
        folder: Path,
        endpoint: str | None,
        tokens: Secret,
        offline: threading.Event,
        page: QWidget,
        refresh: Callable[[], None],
    ) -> None:
        super().__init__(page)
        self._jobs, self._entries, self._folder = jobs, entries, folder
        self._endpoint, self._tokens, self._offline = endpoint, tokens, offline
        self._page, self._refresh = page, refresh
        self.converting: dict[str, Path] = {}  # destinations of conversions, by the key whose row shows them
        self.loaded: str | None = None  # this model is never deleted
        self.question: QMessageBox | None = None

    def do(self, entry: ModelEntry, action: Action) -> None:
        """Runs the action of a button."""
        match action:
            case "download":
                self._download(entry)
            case "resume" if entry.state == "unpacked":
                self._convert(self.source_of(entry), entry)
            case "resume":
                self._download(entry)
            case "pause":
                self._jobs.pause(entry.key)
            case "verify":
                self._jobs.submit(ModelJob(entry.key, "verify", tasks.verify(entry)))
            case "convert" | "convert_but_vision":
                self._convert(entry, entry, keep_vision=action == "convert_but_vision")
            case "cancel":
                self._cancel(entry)
            case "delete":
                self._ask(entry)

    def _download(self, entry: ModelEntry) -> None:
        if self._offline.is_set():
            problem = tr("The offline switch is on, so nothing is downloaded. Turn it off in the settings first.")
            self.refused.emit(entry.key, problem)
            return
        job = tasks.download(entry, self._folder, self._endpoint, self._tokens, self._offline)
        self._jobs.submit(ModelJob(entry.key, "download", job))

    # ---------------------------------------------------------------- packing

    def _convert(self, source: ModelEntry | None, shown: ModelEntry, keep_vision: bool = False) -> None:
        """Packs ``source``; the progress is shown in the row of ``shown``."""
        if source is None:
            return
        destination = self._packed_folder(source) if shown is source else shown.folder
        self.converting[shown.key] = destination
        self._jobs.submit(ModelJob(shown.key, "convert", tasks.convert(source.folder, destination, keep_vision)))
        self.changed.emit()

    def _packed_folder(self, entry: ModelEntry) -> Path:
        name = entry.folder.stem if entry.state == "gguf" else entry.folder.name
        return self._folder / (name + PACKED)

    def can_convert(self, entry: ModelEntry) -> bool:
        """True if the packed copy's folder neither exists nor is being written."""
        destination = self._packed_folder(entry)
        try:
            destination.lstat()
        except FileNotFoundError:
            return destination not in self.converting.values()
        except OSError:  # the longer name exceeds the system's limit
            return False
        return False

    def source_of(self, entry: ModelEntry) -> ModelEntry | None:
        """Returns the source of an unfinished conversion, if it still exists."""
        sources = (e for e in self._entries.values() if e.state in ("ready", "gguf"))
        return next((e for e in sources if e.folder.name == entry.source), None)

    # ---------------------------------------------------------------- deleting

    def _cancel(self, entry: ModelEntry) -> None:
        job = self._jobs.heavy_of(entry.key)
        if job is not None and (job[0] == "verify" or job[1] == "queued"):
            self._jobs.cancel(entry.key)
            return
        self._refresh()  # to show its current size
        entry = self._entries.get(entry.key, entry)
        if not entry.is_ready and entry.bytes_here >= WORTH_ASKING:
            self._ask(entry)
        else:
            self._drop(entry.key)

    def _ask(self, entry: ModelEntry) -> None:
        self.question = ask(self._page, words.delete_question(entry), partial(self._drop, entry.key))

    def _drop(self, key: str, _checked: bool = False) -> None:
        """Deletes a model, or the files of an unfinished one."""
        entry = self._entries.get(key)
        if self._jobs.heavy_of(key) is not None:
            self._jobs.cancel(key)  # the job deletes its own files
        elif entry is None or (entry.is_ready and entry.load_id == self.loaded):
            return
        elif entry.state in ("unfinished", "unpacked"):
            self._jobs.submit(ModelJob(key, "delete", tasks.discard(entry, self._folder)))
        elif entry.group in ("published", "stored"):
            self._jobs.submit(ModelJob(key, "delete", tasks.delete(entry, self._folder)))
