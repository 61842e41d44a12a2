"""The models page: shows the entries and turns button presses into jobs. Knows no engine and no window."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSettings, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.bridge.remote_access import RemoteAccess
from app.design.layouts import column_of
from app.models import tasks, words
from app.models.entries import FOLDERS, Action, ModelEntry, actions, entries
from app.models.frame import PageFrame
from app.models.jobs import JobEnded, JobProgress, Jobs, ModelJob
from app.models.local_folders import LocalFolders
from app.models.memory import MemoryPlans
from app.models.remote_section import RemoteSection
from app.models.rows import ModelRow, RowState
from app.models.token_store import TokenStore
from app.models.work import ModelWork
from app.system.i18n import tr
from app.system.secret import HUB_TOKEN, Secret
from engine import PUBLISHED, PublishedModel, SafelightError
from engine.catalog import is_gguf
from engine.hub.download import ClosedError

HUB = "https://huggingface.co"


class ModelsPage(QWidget):
    """Installed and available models. Lists nothing before ``list_models``, and has no rows before it is shown.

    Args:
        folder: the data folder of models; created when something is written to it.
        published, endpoint, tokens: replacements for the usual ones, for tests.
        remote: decides whether another machine may be reached.
    """

    load_asked = Signal(str)  # an embedded model's id or a folder
    unload_asked = Signal()
    models_changed = Signal(object)  # list[tuple[str, str]]: loadable models with titles

    def __init__(
        self,
        jobs: Jobs,
        folder: Path,
        settings: QSettings,
        *,
        published: Sequence[PublishedModel] = PUBLISHED,
        endpoint: str | None = None,
        tokens: Secret | None = None,
        remote: RemoteAccess | None = None,
    ) -> None:
        super().__init__()
        self.setObjectName("models")
        self._jobs, self._folder = jobs, folder
        self._local = LocalFolders(settings)
        self._published, self._endpoint, self._hub = published, endpoint, endpoint or HUB
        self._tokens = tokens or Secret(HUB_TOKEN)
        self._token_store = TokenStore(jobs, settings, self._tokens)
        self._offline = threading.Event()
        self._loaded: str | None = None
        self._loading: str | None = None
        self._entries: dict[str, ModelEntry] = {}
        self._plans = MemoryPlans(jobs)
        self._progress: dict[str, JobProgress] = {}
        self._said: dict[str, str] = {}  # result of the last job, until the next action
        self._wants_token: set[str] = set()
        self._added: set[str] = set()  # files that were just chosen and are not read yet
        self._ready: list[tuple[str, str]] | None = None
        self._free = 0
        self._swept = False
        self._work = ModelWork(
            jobs, self._entries, folder, endpoint, self._tokens, self._offline, page=self, refresh=self.refresh
        )
        self.rows: dict[str, ModelRow] = {}
        self._remote = remote or RemoteAccess()
        self.servers = RemoteSection(settings, self._remote)
        self.frame = PageFrame(self.servers)
        self.setLayout(column_of(self.frame))
        self.notice = self.frame.notice
        self.frame.folder_chosen.connect(self.add_folder)
        self.frame.file_chosen.connect(self.add_file)
        self.servers.load_asked.connect(self.load_asked)
        self.servers.unload_asked.connect(self.unload_asked)
        self.servers.changed.connect(self._offer)
        self._work.changed.connect(self._show_all)
        self._work.refused.connect(self._refuse)
        self._token_store.changed.connect(self._show_all)
        self._token_store.failed.connect(self.notice.show_message)
        jobs.changed.connect(self._job_changed)
        jobs.progressed.connect(self._job_progressed)
        jobs.ended.connect(self._job_ended)

    # ---------------------------------------------------------------- state from outside

    def show_loaded(self, path_or_id: str | None, loading: str | None = None) -> None:
        """Shows which model is loaded and which is being loaded; None for none."""
        if (path_or_id, loading) == (self._loaded, self._loading):
            return
        is_other = path_or_id != self._loaded
        self._loaded = self._work.loaded = path_or_id
        self._loading = loading
        if is_other:
            self._count_all()
        self._show_all()
        self.servers.show_loaded(path_or_id, loading)

    def set_offline(self, offline: bool) -> None:
        """Allows or forbids downloads; running ones are paused when forbidden."""
        if offline == self._offline.is_set():
            return
        (self._offline.set if offline else self._offline.clear)()
        self.servers.refresh()
        if offline:
            for key in self._jobs.heavy_keys:
                if self._jobs.phase(key, "download") is not None:
                    self._jobs.pause(key)
        self.frame.place.setText(words.place_line(self._folder, self._free, self._offline.is_set()))
        for row in self.rows.values():
            if row.token is not None:
                row.token.set_offline(offline)
        self._show_all()

    @Slot()
    def refresh(self) -> None:
        """Reads the disk and the free memory again and shows the result."""
        if not self.list_models():
            return
        self.frame.place.setText(words.place_line(self._folder, self._free, self._offline.is_set()))
        self._arrange()
        self._count_all()
        self._show_all()

    def list_models(self) -> bool:
        """Finds the models on the disk and offers those that can be loaded. Returns False, with a notice, if that
        fails."""
        try:
            found = entries(self._folder, self._local.all(), self._published)
            place = next(path for path in (self._folder, *self._folder.parents) if path.exists())
            self._free = shutil.disk_usage(place).free
        except OSError as error:
            why = error.strerror or str(error)
            self.notice.show_message(tr("{folder} cannot be read ({why})", folder=self._folder, why=why))
            return False
        if sum(entry.group == "stored" for entry in found) >= FOLDERS:
            self.notice.show_message(
                tr("{folder} holds more than the {count} that are listed", folder=self._folder, count=FOLDERS)
            )
        shown_elsewhere = {folder for key, folder in self._work.converting.items() if key != str(folder)}
        self._entries.clear()
        self._entries |= {e.key: e for e in found if not (e.state == "unpacked" and e.folder in shown_elsewhere)}
        self._offer()
        return True

    @Slot()
    def _offer(self) -> None:
        """Emits which models can be loaded, if that has changed."""
        ready = [(entry.load_id, entry.title) for entry in self._entries.values() if entry.is_ready]
        ready += self.servers.servers.offers()
        if ready != self._ready:
            self._ready = ready
            self.models_changed.emit(ready)

    @property
    def models(self) -> list[tuple[str, str]]:
        """Returns the loadable models with titles, as last emitted by ``models_changed``."""
        return list(self._ready or [])

    def shutdown(self) -> None:
        """Ends the jobs; downloads and conversions can be resumed next time."""
        self._jobs.shutdown()
        self.servers.shutdown()

    def setVisible(self, visible: bool) -> None:
        if visible and not self.rows:  # rows made once it is visible would be laid out after it is painted
            self._arrange()
            self._show_all()
        super().setVisible(visible)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._swept:
            self._swept = True
            self._jobs.submit(ModelJob("", "delete", tasks.sweep(self._folder)))
        self.refresh()

    # ---------------------------------------------------------------- showing

    def _arrange(self) -> None:
        """Makes one row per entry, in order; existing rows are reused."""
        for key in set(self.rows) - set(self._entries):
            row = self.rows.pop(key)
            row.hide()
            row.setParent(None)
            row.deleteLater()
            self._plans.forget(key)
        for key, entry in self._entries.items():
            if key not in self.rows:
                self.rows[key] = self._row(entry)
        self.frame.arrange(self.rows[key] for key in self._entries)

    def _row(self, entry: ModelEntry) -> ModelRow:
        row = ModelRow(entry, f"{self._hub}/{entry.repo}" if entry.repo else "")
        row.action_requested.connect(self._do)
        if row.token is not None:
            row.token.given.connect(self._token_store.keep)
            row.token.forget_asked.connect(self._token_store.forget)
            row.token.set_offline(self._offline.is_set())
        return row

    @Slot()
    def _show_all(self) -> None:
        for key in self._entries:
            self._show(key)

    def _show(self, key: str) -> None:
        if key not in self._entries or key not in self.rows:
            return
        entry, row = self._entries[key], self.rows[key]
        job = self._jobs.heavy_of(key)
        loading = entry.is_ready and entry.load_id == self._loading
        loaded = entry.is_ready and entry.load_id == self._loaded
        progress = self._progress.get(key) if job is not None else None
        bar, text = None, self._said.get(key, "")
        if job is not None and job[1] != "queued":
            bar = 0.0 if progress is None else progress.share
            text = words.beginning_line(job[0], self._hub) if progress is None else words.progress_line(progress)
        memory, tip = self._plans.words(entry, self._loaded_entry())
        before = [self._entries[k].title for k in self._jobs.heavy_keys if k != key and k in self._entries]
        can = actions(entry, job, loaded=loaded or loading, can_convert=self._work.can_convert(entry))
        if entry.state == "unpacked" and self._work.source_of(entry) is None:
            can = tuple(action for action in can if action != "resume")
        wants = entry.repo != "" and not entry.is_ready and (entry.is_gated or key in self._wants_token)
        row.show_state(
            entry,
            RowState(
                words.status(entry, job, loaded=loaded, loading=loading, before=before[0] if before else ""),
                memory,
                tip,
                "" if text else self._disk_line(entry),
                can,
                self._blocked(entry, loaded=loaded or loading),
                loaded,
                bar,
                text,
                wants,
                job[0] if job is not None and job[1] != "queued" else None,
                loading,
            ),
        )
        if row.token is not None:
            row.token.setEnabled(job is None)
            row.token.say(self._token_store.words, has_token=bool(self._token_store.words))

    def _disk_line(self, entry: ModelEntry) -> str:
        copy = self._plans.copy_bytes(entry.key) if self._work.can_convert(entry) else 0
        return words.disk_line(entry, self._free, self._folder, copy)

    def _blocked(self, entry: ModelEntry, *, loaded: bool) -> dict[Action, str]:
        found: dict[Action, str] = {}
        if self._offline.is_set() and entry.state in ("absent", "unfinished"):
            found["download"] = found["resume"] = tr("The offline switch is on; turn it off in the settings first")
        if loaded:
            found["delete"] = tr("Unload it first")
            found["remove"] = tr("Unload it first")
        return found

    # ---------------------------------------------------------------- actions

    @Slot(str, str)
    def _do(self, key: str, action: Action) -> None:
        entry = self._entries.get(key)
        if entry is None:
            return
        self.rows[key].notice.hide()
        self._said.pop(key, None)
        match action:
            case "load":
                self.load_asked.emit(entry.load_id)
            case "unload":
                self.unload_asked.emit()
            case "remove":
                self._local.remove(entry.folder)
                self.refresh()
            case _:
                if action in ("download", "resume"):
                    self._wants_token.discard(key)
                self._work.do(entry, action)

    @Slot(str, str)
    def _refuse(self, key: str, why: str) -> None:
        self.rows[key].notice.show_message(why)

    # ---------------------------------------------------------------- jobs

    @Slot(str)
    def _job_changed(self, key: str) -> None:
        self._show(key)

    @Slot(object)
    def _job_progressed(self, progress: JobProgress) -> None:
        self._progress[progress.key] = progress
        row = self.rows.get(progress.key)
        if row is not None and self._jobs.heavy_of(progress.key) is not None:
            row.show_progress(progress.share, words.progress_line(progress))

    @Slot(object)
    def _job_ended(self, ended: JobEnded) -> None:
        if ended.kind == "token":
            return
        if ended.kind == "plan":
            self._plans.take(ended)
            if ended.key in self._added:
                self._added.discard(ended.key)
                if ended.failure is not None:
                    self._unlist(ended.key, ended.failure)
                    return
            loaded = self._loaded_entry()
            self._show_all() if loaded is not None and ended.key == loaded.key else self._show(ended.key)
            return
        self._progress.pop(ended.key, None)
        if ended.kind == "convert":
            self._work.converting.pop(ended.key, None)
        if isinstance(ended.failure, ClosedError):
            self._wants_token.add(ended.key)
        self.refresh()
        row = self.rows.get(ended.key)
        if ended.failure is not None:
            problem = words.sentence(str(ended.failure))
            (row.notice if row is not None else self.notice).show_message(problem, ended.details)
        elif row is not None and ended.kind == "verify" and ended.result:
            self._said[ended.key] = tr("✓ Checked: every file is as it was written")
            self._show(ended.key)
        elif row is not None and ended.kind == "convert" and isinstance(ended.result, dict) and ended.result:
            self._said[ended.key] = words.packed_line(ended.result)
            self._show(ended.key)

    def _loaded_entry(self) -> ModelEntry | None:
        return next((e for e in self._entries.values() if e.is_ready and e.load_id == self._loaded), None)

    def _count_all(self) -> None:
        """Plans memory again once the page is visible."""
        if self.isVisible():
            self._plans.count(self._entries.values())

    # ---------------------------------------------------------------- the user's folders

    def list_folder(self, path_or_id: str) -> None:
        """Lists a model that was loaded from elsewhere, so that the loaded model always has a row."""
        is_new = self._ready is not None and all(entry.load_id != path_or_id for entry in self._entries.values())
        if is_new and os.path.isfile(os.path.join(path_or_id, "config.json")):
            self._local.add(Path(path_or_id))
            self.refresh()

    @Slot(str)
    def add_folder(self, folder: str | Path) -> None:
        """Adds a model folder to the list; the folder stays where it is on disk."""
        self.notice.hide()
        folder = Path(folder)
        known = next((entry.key for entry in self._entries.values() if entry.folder == folder), None)
        if known is None:
            try:
                self._local.add(folder)
            except SafelightError as error:
                self.notice.show_message(str(error))
                return
            self.refresh()
            known = str(folder)
        if known in self.rows:
            self.frame.ensureWidgetVisible(self.rows[known])

    @Slot(str)
    def add_file(self, file: str | Path) -> None:
        """Adds a GGUF file to the list and reads its header; a file that cannot be imported is removed from the list
        again."""
        file = Path(file)
        if not is_gguf(file):
            self.notice.show_message(tr("{file} is not a GGUF file. Choose one that ends in .gguf.", file=file))
            return
        if str(file) not in self._entries:
            self._added.add(str(file))
        self.add_folder(file)
        self._plans.count(entry for entry in self._entries.values() if entry.key == str(file))

    def _unlist(self, key: str, why: Exception) -> None:
        self._local.remove(Path(key))
        self.refresh()
        self.notice.show_message(words.sentence(str(why)))
