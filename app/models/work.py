"""Starts the jobs on a model, and those that store the access token. Knows no rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from PySide6.QtCore import QSettings

from app.models import tasks, words
from app.models.entries import PACKED, ModelEntry, actions, source_of
from app.models.jobs import JobEnded, JobProgress, Jobs, ModelJob
from app.models.memory import MemoryPlans
from app.models.rows import RowState
from app.system.i18n import tr
from app.system.secret import Place, Secret
from engine.hub_cache import cache_folder, repo_of
from engine.model_files import model_title

KEY = "models/token_kept"  # True if the keyring has a token; the token itself is not stored here


@dataclass
class RowStates:
    """Makes the states. The controller keeps ``entries``, ``loaded``, ``loading`` and ``free`` up to date."""

    jobs: Jobs
    plans: MemoryPlans
    work: ModelWork
    folder: Path
    hub: str  # the address of the downloads
    entries: Mapping[str, ModelEntry] = field(default_factory=dict)
    loaded: str | None = None  # path or id of the model
    loading: str | None = None
    free: int = 0  # bytes of the data folder's disk
    cache: Path = field(default_factory=cache_folder)  # of downloads
    cache_free: int = 0  # bytes of its disk
    progress: dict[str, JobProgress] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # result of the last job, until the next action
    wants_token: set[str] = field(default_factory=set)

    def of(self, key: str) -> RowState:
        """Returns the state of an entry's row."""
        entry, job = self.entries[key], self.jobs.heavy_of(key)
        loading = entry.is_ready and entry.load_id == self.loading
        loaded = entry.is_ready and entry.load_id == self.loaded
        progress = self.progress.get(key) if job is not None else None
        bar, text = None, self.said.get(key, "")
        if job is not None and job[1] != "queued":
            bar = 0.0 if progress is None else progress.share
            text = words.beginning_line(job[0], self.hub) if progress is None else words.progress_line(progress)
        memory, tip = self.plans.words(entry, self.holder)
        before = [self.entries[k].title for k in self.jobs.heavy_keys if k != key and k in self.entries]
        can_convert = self.work.can_convert(entry)
        can = actions(entry, job, loaded=loaded or loading, can_convert=can_convert)
        if entry.state == "unpacked" and source_of(entry, self.entries.values()) is None:
            can = tuple(action for action in can if action != "resume")
        copy = self.plans.copy_bytes(key) if can_convert else 0
        free, place = (self.free, self.folder) if copy else (self.cache_free, self.cache)
        return RowState(
            words.status(entry, job, loaded=loaded, loading=loading, before=before[0] if before else ""),
            memory,
            tip,
            "" if text else words.disk_line(entry, free, place, copy),
            can,
            words.blocked(entry, offline=self.work.offline.is_set(), loaded=loaded or loading),
            loaded,
            bar,
            text,
            entry.repo != "" and not entry.is_ready and (entry.is_gated or key in self.wants_token),
            job[0] if job is not None and job[1] != "queued" else None,
            loading,
        )

    @property
    def holder(self) -> ModelEntry | None:
        return next((e for e in self.entries.values() if e.is_ready and e.load_id == self.loaded), None)


class ModelWork:
    """Submits jobs, and knows which copies are being written.

    Attributes:
        converting: destinations of conversions, by the key whose row shows them.
    """

    def __init__(self, jobs: Jobs, folder: Path, endpoint: str | None, tokens: Secret) -> None:
        self._jobs, self._folder, self._endpoint, self._tokens = jobs, folder, endpoint, tokens
        self.offline = threading.Event()
        self.converting: dict[str, Path] = {}

    def download(self, entry: ModelEntry) -> str:
        """Begins or resumes a download. Returns why it may not be; empty if it may."""
        if self.offline.is_set():
            return tr("Offline is on, so nothing is downloaded. Turn it off in the settings first.")
        self._jobs.submit(ModelJob(entry.key, "download", tasks.download(entry, self._endpoint, self._tokens)))
        return ""

    def convert(self, source: ModelEntry, shown: ModelEntry) -> None:
        """Packs ``source``; the progress is shown in the row of ``shown``."""
        destination = self._packed_folder(source) if shown is source else shown.folder
        self.converting[shown.key] = destination
        self._jobs.submit(ModelJob(shown.key, "convert", tasks.convert(source.folder, destination)))

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
            self._jobs.submit(ModelJob(entry.key, "delete", tasks.discard(entry)))
        elif entry.group in ("published", "stored") or repo_of(entry.folder) is not None:
            self._jobs.submit(ModelJob(entry.key, "delete", tasks.delete(entry, self._folder)))


class TokenStore:
    """``words`` is empty if no token is stored; ``then`` takes the end of each change."""

    def __init__(self, jobs: Jobs, settings: QSettings, tokens: Secret, then: Callable[[JobEnded], object]) -> None:
        self._jobs, self._settings, self._tokens, self._then = jobs, settings, tokens, then
        self._saves = 0
        self.words = self._words("keyring") if settings.value(KEY) in (True, "true") else ""

    def keep(self, token: str) -> None:
        """Stores a token in place of the previous one."""
        self._saves += 1  # each job has its own key, so that all run, in order
        work = tasks.keep_token(self._tokens, token)
        self._jobs.submit(ModelJob(f"token {self._saves}", "token", work, self._ended))

    def forget(self) -> None:
        self.keep("")

    def _ended(self, ended: JobEnded) -> None:
        if ended.failure is None:
            place = cast(Place, ended.result)
            self._settings.setValue(KEY, place == "keyring")
            self.words = self._words(place)
        self._then(ended)

    @staticmethod
    def _words(place: Place) -> str:
        return {
            "keyring": tr("✓ An access token is in the system's keyring."),
            "session": tr("✓ No keyring works here, so the token is kept until Safelight is closed."),
            "nowhere": "",
        }[place]
