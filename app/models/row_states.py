"""The state that each row shows, from the jobs, the memory plans and what the last job said. Knows no widgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.models import words
from app.models.entries import ModelEntry, actions, source_of
from app.models.jobs import JobProgress, Jobs
from app.models.memory import MemoryPlans
from app.models.rows import RowState
from app.models.work import ModelWork
from engine.hub_cache import cache_folder


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
        """Returns the entry of the loaded model."""
        return next((e for e in self.entries.values() if e.is_ready and e.load_id == self.loaded), None)
