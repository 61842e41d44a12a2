"""Lists models, and turns the buttons of their rows into loads and jobs: download, pack, check, delete."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QMessageBox

from app.context import AppContext
from app.design.controls import focus_in_view
from app.design.notice import ask
from app.models import tasks, words
from app.models.entries import FOLDERS, Action, ModelEntry, Place, entries, place_of, source_of
from app.models.jobs import JobEnded, JobProgress, Jobs, ModelJob
from app.models.listed import FoundModels, LocalFolders, is_place
from app.models.memory import MachineLook, MemoryPlans
from app.models.page import ModelsPage
from app.models.remote_controller import RemoteController
from app.models.rows import ModelRow
from app.models.search_section import HubSearch
from app.models.work import ModelWork, RowStates, TokenStore
from app.system.i18n import tr, trn
from app.system.secret import HUB_TOKEN, Secret
from engine import PUBLISHED, PublishedModel, SafelightError
from engine.errors import ClosedError
from engine.hub_cache import repo_of, snapshot_of
from engine.model_files import is_gguf, model_at

HUB = "https://huggingface.co"
WORTH_ASKING = 100_000_000  # bytes; less is cancelled without a question


class ModelsController(QObject):
    """Lists no models before ``list_models`` is called or the page is shown, and makes no rows before it is shown.

    Args:
        published, endpoint, tokens: replacements for the usual ones, for tests.
    """

    notice = None  # errors of the page's jobs are shown in it, other errors below it

    def __init__(
        self,
        context: AppContext,
        *,
        published: Sequence[PublishedModel] = PUBLISHED,
        endpoint: str | None = None,
        tokens: Secret | None = None,
    ) -> None:
        super().__init__()
        self._context, self._folder = context, context.folders.models  # made when something is written to it
        self._published, self._hub = published, (endpoint or os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
        self.jobs = Jobs(self)
        self._local = LocalFolders(context.settings)
        tokens = tokens or Secret(HUB_TOKEN)
        self._token_store = TokenStore(self.jobs, context.settings, tokens, self._show_or_say)
        self._work = ModelWork(self.jobs, self._folder, endpoint, tokens)
        self._plans = MemoryPlans(self.jobs, lambda: context.machine(), self._plan_ended)
        self.look = MachineLook(self.jobs, lambda: context.machine(), self._held, self._has_disk, self._show_machine)
        self._places: dict[str, Place] = {}  # of rows, kept while the page is shown so that none moves away
        self._entries: dict[str, ModelEntry] = {}
        self._wanted: dict[str, ModelEntry] = {}  # found on the hub, and not begun to be downloaded
        self._added: set[str] = set()  # files that were just chosen and are not read yet
        self._ready: list[tuple[str, str]] | None = None
        self._swept = False
        self._states = RowStates(self.jobs, self._plans, self._work, self._folder, self._hub)
        self.question: QMessageBox | None = None
        self.widget = self.page = ModelsPage()
        self.found = FoundModels(self.jobs, self._plans, self._local, self.page.found, lambda: self._states.holder)
        self.search = HubSearch(self.jobs, self._plans, self.page.hub, self._hub, lambda: self._states.holder)
        self.setParent(self.page)  # so that no signal arrives once the page is destroyed
        self.remote = RemoteController(context, self.page.servers)
        context.at_end(self.search.close)
        context.at_end(self.jobs.shutdown)  # which is called first
        self._connect()
        self._show_model()
        self._show_offline()

    def _connect(self) -> None:
        self.page.about_to_show.connect(self._make_rows)
        self.page.shown.connect(self._look)
        self.page.folder_chosen.connect(self.add_folder)
        self.page.file_chosen.connect(self.add_file)
        self.page.found.used.connect(self._use)
        self.found.failed.connect(self.page.notice.show_message)
        self.search.chosen.connect(self._download)
        self.remote.changed.connect(self._offer)
        self.jobs.changed.connect(self._show)
        self.jobs.progressed.connect(self._job_progressed)
        self.jobs.ended.connect(self._job_ended)
        self._context.slot.changed.connect(self._show_model)
        self._context.offline_changed.connect(self._show_offline)

    def enter(self) -> None:
        """Refreshes when the page is shown, and shows the recommended model."""
        self._places.clear()
        self.refresh()
        self.page.show_hero()

    @Slot()
    def _show_model(self) -> None:
        models = (self._context.model, self._context.loading)
        model, loading = (None if each is None else each.path_or_id for each in models)
        if model is not None:
            self._list_folder(model)
            self.look.start()  # by now the engine has imported what takes long
        states = self._states
        if (model, loading) == (states.loaded, states.loading):
            return
        is_other = model != states.loaded
        states.loaded, states.loading = model, loading
        if is_other:
            self._count_all()
        self._show_all()

    @Slot()
    def _show_offline(self) -> None:
        """Allows or forbids downloads; running ones are paused when forbidden."""
        offline = self._context.preferences.offline
        if offline == self._work.offline.is_set():
            return
        (self._work.offline.set if offline else self._work.offline.clear)()
        self.search.set_offline(offline)
        if offline:
            for key in self.jobs.heavy_keys:
                if self.jobs.phase(key, "download") is not None:
                    self.jobs.pause(key)
        self._show_place()
        for row in self.page.rows.values():
            row.set_offline(offline)
        self._show_all()

    @Slot()
    def refresh(self) -> None:
        """Reads the disk and the free memory again and shows the result."""
        if self.list_models():
            self._show_place()
            self._arrange()
            self._count_all()
            self._show_all()

    def list_models(self) -> bool:
        """Finds the models on the disk and offers those that can be loaded. Returns False, with a notice, if that
        fails."""
        try:
            listed = entries(self._folder, self._local.all(), self._published)
            self._states.free, self._states.cache_free = map(_free, (self._folder, self._states.cache))
        except OSError as error:
            why = error.strerror or str(error)
            self.page.notice.show_message(tr("{folder} cannot be read ({why})", folder=self._folder, why=why))
            return False
        if sum(entry.group == "stored" for entry in listed) >= FOLDERS:
            self.page.notice.show_message(
                tr("{folder} holds more than the {count} that are listed", folder=self._folder, count=FOLDERS)
            )
        shown_elsewhere = {folder for key, folder in self._work.converting.items() if key != str(folder)}
        known = {entry.key for entry in listed}
        self._wanted = {key: entry for key, entry in self._wanted.items() if key not in known}
        listed = (*listed, *self._wanted.values())
        self._entries = self._states.entries = {
            e.key: e for e in listed if not (e.state == "unpacked" and e.folder in shown_elsewhere)
        }
        self.found.leave_out({entry.folder for entry in self._entries.values() if entry.state != "absent"})
        self.search.know({repo: e for e in self._entries.values() if (repo := e.repo or repo_of(e.folder))})
        self._offer()
        return True

    @Slot()
    def _offer(self) -> None:
        """Offers the models that can be loaded to the other pages, if they have changed."""
        ready = [(entry.load_id, entry.title) for entry in self._entries.values() if entry.is_ready]
        ready += self.remote.servers.offers()
        if ready != self._ready:
            self._ready = ready
            self._context.slot.offer(ready)

    def _list_folder(self, path_or_id: str) -> None:
        """Lists a model that was loaded from elsewhere, so that the loaded model always has a row."""
        is_new = self._ready is not None and all(entry.load_id != path_or_id for entry in self._entries.values())
        is_file = os.path.isfile(path_or_id) and is_gguf(Path(path_or_id))
        if is_new and (is_file or os.path.isfile(os.path.join(path_or_id, "config.json"))):
            self._local.add(Path(path_or_id))
            self.refresh()

    @Slot(str)
    def add_folder(self, folder: str | Path) -> None:
        """Adds the model in a folder to the list; of a folder with several, or with folders, all that is found in it.
        All stays where it is on disk."""
        self.page.notice.hide()
        folder = model_at(Path(folder))
        if is_place(folder):
            self.found.add(folder)
            return
        if is_gguf(folder) and str(folder) not in self._entries:
            self._added.add(str(folder))
        known = next((entry.key for entry in self._entries.values() if entry.folder == folder), None)
        if known is None:
            try:
                self._local.add(folder)
            except SafelightError as error:
                self.page.notice.show_message(str(error))
                return
            self.refresh()
            known = str(folder)
        if known in self.page.rows:
            self.page.ensureWidgetVisible(self.page.rows[known])
        if known in self._added:
            self._plans.count([self._entries[known]])

    @Slot(str)
    def _use(self, path: str) -> None:
        """Adds a model that was found to the list, and loads it if it needs no import."""
        self.add_folder(path)
        entry = self._entries.get(path)
        if entry is not None and entry.is_ready:
            self._context.load(entry.load_id)

    @Slot(object)
    def _download(self, entry: ModelEntry) -> None:
        """Puts a model of the hub on the list and begins its download."""
        if entry.key not in self._entries:
            self._wanted[entry.key] = entry
            self.refresh()
        if entry.key in self.page.rows:
            focus_in_view(self.page.rows[entry.key])  # which gives the focus to its button
            self._do(entry.key, "download")

    @Slot(str)
    def add_file(self, file: str | Path) -> None:
        """Adds a GGUF file to the list and reads its header, or that of its first part; a file that cannot be imported
        is removed from the list again."""
        if not is_gguf(Path(file)):
            self.page.notice.show_message(tr("{file} is not a GGUF file. Choose one that ends in .gguf.", file=file))
            return
        self.add_folder(file)

    @Slot()
    def _make_rows(self) -> None:
        if not self.page.rows:
            self._arrange()
            self._show_all()

    @Slot()
    def _look(self) -> None:
        self.found.look()
        if not self._swept:
            self._swept = True
            self.jobs.submit(ModelJob("", "delete", tasks.sweep(self._folder)))
        self.refresh()

    def _arrange(self) -> None:
        """Makes one row per entry, in order; existing rows are reused."""
        for key in self.page.rows.keys() - self._entries.keys():
            self.page.remove_row(key)
            self._plans.forget(key)
        for key, entry in self._entries.items():
            if key not in self.page.rows:
                self.page.rows[key] = self._row(entry)
        recommended = self.look.recommended
        best = "" if recommended is None else recommended.key
        self._places = {key: self._places.get(key, place_of(entry, best)) for key, entry in self._entries.items()}
        self.page.arrange(self._places)

    def _show_or_say(self, ended: JobEnded) -> None:
        """Shows the rows after a job, or says why it failed."""
        if ended.failure is not None:
            self.page.notice.show_message(str(ended.failure), ended.details)
        else:
            self._show_all()

    def _show_machine(self, ended: JobEnded) -> None:
        """Shows the computer, and the recommended model first."""
        machine, recommended, hero = self.look.machine, self.look.recommended, self.page.hero
        if machine is None or recommended is None:
            self._show_or_say(ended)
            return
        hero.describe(words.machine_line(machine), words.note_line(recommended.note))
        if self._places.get(recommended.key, "hero") != "hero":  # the other rows stay where they are
            for key in [key for key, place in self._places.items() if place == "hero"]:
                self._places[key] = place_of(self._entries[key], recommended.key)
            self._places[recommended.key] = "hero"
            self._arrange()
            if self.page.window().focusWidget() is self.page:
                self.page.show_hero()
        self._show_all()

    def _held(self) -> int:
        """Returns the bytes that unloading the loaded model would free."""
        return self._plans.held(self._states.holder)

    def _has_disk(self, key: str) -> bool:
        """Returns True if a published model is here, or its download fits on the disk."""
        entry = self._entries.get(key)
        return entry is None or entry.is_ready or entry.bytes_total - entry.bytes_here <= self._states.cache_free

    def _row(self, entry: ModelEntry) -> ModelRow:
        row = ModelRow(entry, f"{self._hub}/{entry.repo}" if entry.repo else "")
        row.action_requested.connect(self._do)
        if row.token is not None:
            row.token.given.connect(self._token_store.keep)
            row.token.forget.clicked.connect(self._token_store.forget)
        row.set_offline(self._work.offline.is_set())
        return row

    def _show_place(self) -> None:
        states = self._states
        self.page.place.setText(words.place_line(states.cache, states.cache_free, self._work.offline.is_set()))

    @Slot()
    def _show_all(self) -> None:
        for key in self._entries:
            self._show(key)
        small = [entry for key, entry in self._entries.items() if self._places.get(key) == "small"]
        loaded = next((entry.title for entry in small if entry == self._states.holder), "")
        status = tr("● {model} is loaded", model=loaded) if loaded else ""
        about = " · ".join(filter(None, (tr("They come with Safelight"), status)))
        self.page.small.say(tr("The small models one by one"), about)
        untried = sum(place == "experimental" for place in self._places.values())
        title = trn("{count} experimental model to download", "{count} experimental models to download", untried)
        self.page.experimental.say(title, tr("Nobody here has run their published weights"))

    @Slot(str)
    def _show(self, key: str) -> None:
        if key not in self._entries or key not in self.page.rows:
            return
        row = self.page.rows[key]
        row.show_state(self._entries[key], self._states.of(key))
        if row.token is not None:
            row.token.setEnabled(self.jobs.heavy_of(key) is None)
            row.token.say(self._token_store.words, has_token=bool(self._token_store.words))

    def _count_all(self) -> None:
        """Looks at the computer once the page is visible, and plans memory again."""
        if self.page.isVisible():
            self.look.start()
            self._plans.count(self._entries.values())

    @Slot(str, str)
    def _do(self, key: str, action: Action) -> None:
        entry = self._entries.get(key)
        if entry is None:
            return
        self.page.rows[key].notice.hide()
        self._states.said.pop(key, None)
        match action:
            case "load":
                self._context.load(entry.load_id)
            case "unload":
                self._context.slot.unload()
            case "remove":
                self._local.remove(entry.folder)
                self._wanted.pop(key, None)
                self.refresh()
            case "resume" if entry.state == "unpacked":
                if (source := source_of(entry, self._entries.values())) is not None:
                    self._work.convert(source, entry)
            case "download" | "resume":
                self._states.wants_token.discard(key)
                if refusal := self._work.download(entry):
                    self.page.rows[key].notice.show_message(refusal)
            case "pause":
                self.jobs.pause(key)
            case "convert":
                self._work.convert(entry, entry)
                self._show_all()
            case "cancel":
                self._cancel(entry)
            case "delete":
                self._ask(entry)

    def _cancel(self, entry: ModelEntry) -> None:
        job = self.jobs.heavy_of(entry.key)
        if job is not None and job[1] == "queued":
            self.jobs.cancel(entry.key)
            return
        self.refresh()  # to show its current size
        entry = self._entries.get(entry.key, entry)
        if not entry.is_ready and entry.bytes_here >= WORTH_ASKING:
            self._ask(entry)
        else:
            self._drop(entry.key)

    def _ask(self, entry: ModelEntry) -> None:
        self.question = ask(self.page, words.delete_question(entry), functools.partial(self._drop, entry.key))

    def _drop(self, key: str, _checked: bool = False) -> None:
        """Deletes a model, or the files of an unfinished one; never the loaded one."""
        entry = self._entries.get(key)
        if self.jobs.heavy_of(key) is not None:
            self.jobs.cancel(key)  # the job deletes its own files
        elif entry is not None and not (entry.is_ready and entry.load_id == self._states.loaded):
            self._work.delete(entry)

    @Slot(object)
    def _job_progressed(self, progress: JobProgress) -> None:
        self._states.progress[progress.key] = progress
        row = self.page.rows.get(progress.key)
        if row is not None and self.jobs.heavy_of(progress.key) is not None:
            row.show_progress(progress.share, words.progress_line(progress))

    @Slot(object)
    def _job_ended(self, ended: JobEnded) -> None:
        if ended.kind == "download" and ended.failure is None:
            self._wanted.pop(ended.key, None)  # one that was paused is in the cache
            place, entry = snapshot_of(ended.key), self._entries.get(ended.key)
            if place is not None and entry is not None and entry.group == "stored":
                self._local.add(place)
        if ended.kind == "delete" and ended.result:
            self._local.remove(Path(ended.key))
            self.found.look()
        self._states.progress.pop(ended.key, None)
        if ended.kind == "convert":
            self._work.converting.pop(ended.key, None)
        if isinstance(ended.failure, ClosedError):
            self._states.wants_token.add(ended.key)
        self.refresh()
        row = self.page.rows.get(ended.key)
        if ended.failure is not None:
            problem = words.sentence(str(ended.failure))
            (row or self.page).notice.show_message(problem, ended.details)
        elif row is not None and ended.kind == "delete" and ended.result:
            self._states.said[ended.key] = tr("✓ Deleted: {size} freed", size=words.amount(cast(int, ended.result)))
            self._show(ended.key)
        elif row is not None and ended.kind == "convert" and ended.result:
            self._states.said[ended.key] = tr("✓ Packed into 4 bits")
            self._show(ended.key)

    def _plan_ended(self, ended: JobEnded) -> None:
        self.search.say()
        if ended.key not in self._entries:
            self.found.counted(ended.key)
            return
        is_new = ended.key in self._added
        self._added.discard(ended.key)
        if is_new and ended.failure is not None:
            self._local.remove(Path(ended.key))
            self.refresh()
            self.page.notice.show_message(words.sentence(str(ended.failure)))
            return
        loaded = self._states.holder
        self._show_all() if loaded is not None and ended.key == loaded.key else self._show(ended.key)


def _free(folder: Path) -> int:
    """Returns the free bytes of the disk on which a folder is or will be made."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def build(context: AppContext) -> ModelsController:
    return ModelsController(context)
