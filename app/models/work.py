"""Starts the jobs on a model, and those that store the access token. Knows no rows."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

from PySide6.QtCore import QObject, QSettings, Signal, Slot

from app.models import tasks
from app.models.entries import PACKED, ModelEntry
from app.models.jobs import JobEnded, JobKind, Jobs, ModelJob
from app.system.i18n import tr
from app.system.secret import Place, Secret
from engine.hub_cache import repo_of
from engine.model_files import model_title


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
            return tr("Offline is on, so nothing is downloaded. Turn it off in the settings first.")
        self.submit(entry.key, "download", tasks.download(entry, self._endpoint, self._tokens))
        return ""

    def convert(self, source: ModelEntry, shown: ModelEntry) -> None:
        """Packs ``source``; the progress is shown in the row of ``shown``."""
        destination = self._packed_folder(source) if shown is source else shown.folder
        self.converting[shown.key] = destination
        self.submit(shown.key, "convert", tasks.convert(source.folder, destination))

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
        return self._folder / (model_title(entry.folder).replace("/", "--") + PACKED)

    def delete(self, entry: ModelEntry) -> None:
        """Deletes a model, or the files of an unfinished one."""
        if entry.state in ("unfinished", "unpacked"):
            self.submit(entry.key, "delete", tasks.discard(entry))
        elif entry.group in ("published", "stored") or repo_of(entry.folder) is not None:
            self.submit(entry.key, "delete", tasks.delete(entry, self._folder))


KEY = "models/token_kept"  # True if the keyring has a token; the token itself is not stored here


class TokenStore(QObject):
    """``words`` is empty if no token is stored."""

    changed = Signal()
    failed = Signal(str, str)  # message, details

    def __init__(self, jobs: Jobs, settings: QSettings, tokens: Secret) -> None:
        super().__init__()
        self._jobs, self._settings, self._tokens = jobs, settings, tokens
        self._saves = 0
        self.words = self._words("keyring") if settings.value(KEY) in (True, "true") else ""
        jobs.ended.connect(self._ended)

    @Slot(str)
    def keep(self, token: str) -> None:
        """Stores a token in place of the previous one."""
        self._saves += 1  # each job has its own key, so that all run, in order
        self._jobs.submit(ModelJob(f"token {self._saves}", "token", tasks.keep_token(self._tokens, token)))

    @Slot()
    def forget(self) -> None:
        self.keep("")

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        if ended.kind != "token":
            return
        if ended.failure is not None:
            self.failed.emit(str(ended.failure), ended.details)
            return
        place = cast(Place, ended.result)
        self._settings.setValue(KEY, place == "keyring")
        self.words = self._words(place)
        self.changed.emit()

    @staticmethod
    def _words(place: Place) -> str:
        return {
            "keyring": tr("✓ An access token is in the system's keyring."),
            "session": tr("✓ No keyring works here, so the token is kept until Safelight is closed."),
            "nowhere": "",
        }[place]
