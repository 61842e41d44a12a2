"""Searches Hugging Face when it is asked to, in a thread, and counts the size and the memory of the models shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal, Slot

from app.models import words
from app.models.entries import ModelEntry, writes_of
from app.models.jobs import Control, JobEnded, Jobs, ModelJob
from app.models.memory import MemoryPlans
from app.models.search_section import HubSection, found_line, hit_line
from app.system.i18n import tr
from engine.hub_cache import repo_folder

if TYPE_CHECKING:
    from engine.hub_search import Hit


class HubSearch(QObject):
    """Shows what was found; a new search replaces the one before."""

    chosen = Signal(object)  # the ModelEntry to download

    def __init__(
        self, jobs: Jobs, plans: MemoryPlans, section: HubSection, hub: str, holder: Callable[[], ModelEntry | None]
    ) -> None:
        super().__init__(section)
        self._jobs, self._plans, self._section, self._hub, self._holder = jobs, plans, section, hub, holder
        self._host = hub.partition("://")[2]
        self._hits: dict[str, Hit] = {}
        self._entries: dict[str, ModelEntry] = {}  # of rows, for their plans, by repository
        self._known: Mapping[str, ModelEntry] = {}  # that the page lists, by repository
        self._numbers = itertools.count()
        self._search = ""  # key of the last one
        self._closer: list[str] = []  # keys of what was asked about its models
        self._configs: TemporaryDirectory[str] | None = None
        section.asked.connect(self.ask)
        section.chosen.connect(self._choose)
        section.turned.connect(self._count)
        self.set_offline(False)

    def close(self) -> None:
        """Removes the configs that were asked for."""
        if self._configs is not None:
            self._configs.cleanup()

    def set_offline(self, offline: bool) -> None:
        """Hides the search while offline, and ends what was begun."""
        self._is_offline = offline
        self._section.setVisible(not offline)
        self._stop()
        self._show((), tr("The words are sent to {host} once you press Enter.", host=self._host))

    @Slot(str)
    def ask(self, asked: str) -> None:
        """Begins a search; not while offline."""
        if self._is_offline:
            return
        self._stop()
        self._configs = self._configs or TemporaryDirectory(prefix="safelight-")
        self._search, hub = f"search {next(self._numbers)}", self._hub
        self._show((), tr("Asking {host}…", host=self._host))

        def work(control: Control) -> object:
            from engine.hub_search import search  # imports the library of Hugging Face

            return search(asked, hub, control)

        self._jobs.submit(ModelJob(self._search, "search", work))

    def _stop(self) -> None:
        search, self._search = self._search, ""
        self._jobs.cancel(search, "search")
        for key in self._closer:
            self._jobs.cancel(key, "closer")
        self._closer.clear()

    def take(self, ended: JobEnded) -> None:
        """Takes what the hub answered; what is of an earlier search is dropped."""
        if ended.kind == "search" and ended.key == self._search:
            if ended.failure is not None:
                self._show((), words.sentence(str(ended.failure)))
                return
            hits, is_cut = cast("tuple[tuple[Hit, ...], bool]", ended.result)
            self._show(hits, found_line(hits, is_cut=is_cut))
        elif ended.kind == "closer" and ended.result is not None:
            entry = cast(ModelEntry, ended.result)
            self._entries[entry.repo] = entry
            self._plans.count([] if entry.repo in self._known else [entry])
            self.say()

    def _show(self, hits: tuple[Hit, ...], said: str) -> None:
        self._hits = {hit.repo: hit for hit in hits}
        self._entries = {repo: entry for repo, entry in self._entries.items() if entry.bytes_total}
        self._section.show_hits(hits, said)

    def know(self, known: Mapping[str, ModelEntry]) -> None:
        """Takes what the page lists."""
        for repo in self._known.keys() - known.keys():  # the page has forgotten its plan
            self._entries.pop(repo, None)
        self._known = dict(known)
        self._count()

    @Slot()
    def _count(self) -> None:
        """Asks closer about models whose rows have just appeared."""
        for repo in [repo for repo in self._section.rows if repo not in {*self._entries, *self._known}]:
            self._entries[repo] = entry = _entry(self._hits[repo])
            self._closer.append(f"{self._search} {repo}")
            self._jobs.submit(ModelJob(self._closer[-1], "closer", self._look_closer(entry)))
        self.say()

    def _look_closer(self, entry: ModelEntry) -> Callable[[Control], object]:
        hub, folder = self._hub, Path(cast(TemporaryDirectory[str], self._configs).name, entry.folder.name)

        def work(control: Control) -> object:
            from engine.hub_search import look_closer  # imports the library of Hugging Face

            folder.mkdir(exist_ok=True)
            size = look_closer(entry.repo, folder, hub, control)
            shape = str(folder) if (folder / "config.json").exists() else ""
            return replace(entry, bytes_total=size, shape=shape)

        return work

    def say(self) -> None:
        """Shows in the rows what is known of their models."""
        for repo, row in self._section.rows.items():
            known = self._known.get(repo)
            entry = known or self._entries[repo]
            row.facts.setText(hit_line(self._hits[repo], entry.bytes_total or entry.bytes_here))
            row.say(*self._plans.words(entry, self._holder()))
            is_listed = known is not None and (known.state != "absent" or known.group == "stored")
            row.use.setEnabled(not is_listed)
            row.use.setText(tr("On your list") if is_listed else tr("Download"))

    @Slot(str)
    def _choose(self, repo: str) -> None:
        self.chosen.emit(self._known.get(repo) or self._entries[repo])


def _entry(hit: Hit) -> ModelEntry:
    """Returns the entry of a model whose size and config are not known yet."""
    return ModelEntry(
        hit.repo, "stored", "absent", hit.repo, tr("a model on Hugging Face"), repo_folder(hit.repo), repo=hit.repo,
        is_packed=bool(hit.form), is_gated=hit.is_gated, writes=writes_of(hit.family), licence=hit.licence,
    )  # fmt: skip
