"""Starts the jobs on a model: download, pack, check, delete. Knows no rows."""

from __future__ import annotations

import threading
from pathlib import Path

from app.models import tasks
from app.models.entries import PACKED, ModelEntry
from app.models.jobs import JobKind, Jobs, ModelJob
from app.system.i18n import tr
from app.system.secret import Secret


class ModelWork:
    """Submits jobs, and knows which copies are being written.

    Attributes:
        converting: destinations of conversions, by the key whose row shows them.
    """

    def __init__(self, jobs: Jobs, folder: Path, endpoint: str | None, tokens: Secret) -> None:
        self._jobs, self._folder, self._endpoint, self._tokens = jobs, folder, endpoint, tokens
        self.offline = threading.Event()
        self.converting: dict[str, Path] = {}

    def submit(self, key: str, kind: JobKind, work: tasks.Work) -> None:
        self._jobs.submit(ModelJob(key, kind, work))

    def download(self, entry: ModelEntry) -> str:
        """Begins or resumes a download. Returns why it may not be; empty if it may."""
        if self.offline.is_set():
            return tr("The offline switch is on, so nothing is downloaded. Turn it off in the settings first.")
        self.submit(
            entry.key, "download", tasks.download(entry, self._folder, self._endpoint, self._tokens, self.offline)
        )
        return ""

    def convert(self, source: ModelEntry, shown: ModelEntry, keep_vision: bool = False) -> None:
        """Packs ``source``; the progress is shown in the row of ``shown``."""
        destination = self._packed_folder(source) if shown is source else shown.folder
        self.converting[shown.key] = destination
        self.submit(shown.key, "convert", tasks.convert(source.folder, destination, keep_vision))

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

    def _packed_folder(self, entry: ModelEntry) -> Path:
        name = entry.folder.stem if entry.state == "gguf" else entry.folder.name
        return self._folder / (name + PACKED)

    def delete(self, entry: ModelEntry) -> None:
        """Deletes a model, or the files of an unfinished one."""
        if entry.state in ("unfinished", "unpacked"):
            self.submit(entry.key, "delete", tasks.discard(entry, self._folder))
        elif entry.group in ("published", "stored"):
            self.submit(entry.key, "delete", tasks.delete(entry, self._folder))
