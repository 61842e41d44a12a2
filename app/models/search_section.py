"""The search for models on Hugging Face: a field, a short row for each model that loads here, and a line on the
others. Sends nothing before Enter or the button is pressed. Knows no jobs and no network."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QLineEdit, QWidget

from app.design.controls import button, flow_of, introduce, label, show_line
from app.design.fonts import px
from app.design.layouts import column_of
from app.models import words
from app.models.entries import ModelEntry, writes_of
from app.models.found_section import ROWS_AT_FIRST, ShortRow, ShortRows, first_of
from app.models.jobs import Control, JobEnded, Jobs, ModelJob
from app.models.memory import MemoryPlans
from app.models.words import amount
from app.system.i18n import tr, trn
from engine.hub_cache import repo_folder

if TYPE_CHECKING:
    from engine.hub_search import Hit


SEARCH_WIDTH = 260  # pixels of the field at 100 %


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

        self._jobs.submit(ModelJob(self._search, "search", work, self._show_hits))

    def _stop(self) -> None:
        search, self._search = self._search, ""
        self._jobs.cancel(search, "search")
        for key in self._closer:
            self._jobs.cancel(key, "closer")
        self._closer.clear()

    def _show_hits(self, ended: JobEnded) -> None:
        """Takes what the hub answered; what is of an earlier search is dropped."""
        if ended.key != self._search:
            return
        if ended.failure is not None:
            self._show((), words.sentence(str(ended.failure)))
            return
        hits, is_cut = cast("tuple[tuple[Hit, ...], bool]", ended.result)
        self._show(hits, found_line(hits, is_cut=is_cut))

    def _add(self, ended: JobEnded) -> None:
        """Takes what the hub says of one model."""
        if ended.result is not None:
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
            self._jobs.submit(ModelJob(self._closer[-1], "closer", self._look_closer(entry), self._add))
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


class HubSection(ShortRows["Hit"]):
    """Emits what is asked; its keys are repositories."""

    asked = Signal(str)  # words
    chosen = Signal(str)  # a repository

    def __init__(self) -> None:
        super().__init__()
        self.words = introduce(
            QLineEdit(placeholderText=tr("Words in a model's name"), maxLength=100),
            tr("Words in the name of a model on Hugging Face"),
        )
        self.words.setFixedWidth(px(SEARCH_WIDTH))
        self.search = button(tr("Search"), tr("Search Hugging Face"), role="plain", clicked=self._ask)
        self.said = label("", "fact", wrap=True, name=tr("What was found on Hugging Face"))
        self.others = label("", "fact", wrap=True, selectable=True, name=tr("Why others do not load here"))
        parts = flow_of(self.words, self.search), self.said, self._column, self.more, self.others
        self.setLayout(column_of(label(tr("Search Hugging Face"), "group"), *parts, margins=(0, 16, 0, 0), spacing=8))
        self.words.returnPressed.connect(self._ask)
        self.words.textChanged.connect(self._typed)
        self._typed()
        self.show_hits((), "")

    def show_hits(self, hits: Sequence[Hit], said: str) -> None:
        """Shows the models of an answer in place of those before."""
        self._items, self._most = {hit.repo: hit for hit in hits if not hit.why}, ROWS_AT_FIRST
        self.said.setText(said)
        show_line(self.others, others_line([hit for hit in hits if hit.why]))
        self._show()

    def tab_order(self) -> list[QWidget]:
        return [self.words, self.search, *(row.use for row in self.rows.values()), self.more]

    @Slot()
    def _typed(self) -> None:
        self.search.setEnabled(bool(self.words.text().strip()))

    @Slot()
    def _ask(self) -> None:
        if words := " ".join(self.words.text().split()):
            self.asked.emit(words)

    def _row(self, hit: Hit) -> ShortRow:
        name, tip = tr("Download {title}", title=hit.repo), tr("Can be paused and continued, also after a restart")
        use = button(tr("Download"), name, role="plain", tip=tip, clicked=partial(self.chosen.emit, hit.repo))
        return ShortRow(hit.repo, hit_line(hit, 0), use)


def hit_line(hit: Hit, size: int) -> str:
    """Says what a model is, how large its download, and how often it is downloaded, as far as the hub says it."""
    count, licence = hit.downloads, tr("licence {name}", name=hit.licence) if hit.licence else ""
    if hit.is_gated:
        licence = tr("{licence}, to be accepted first", licence=licence or tr("a licence"))
    parts = (
        hit.family,
        hit.form,
        amount(size) if size else "",
        licence,
        "" if count is None else trn("{count} download in 30 days", "{count} downloads in 30 days", count),
    )
    return " · ".join(filter(None, parts))


def found_line(hits: Sequence[Hit], *, is_cut: bool) -> str:
    """Says how many models were found that load here."""
    count = sum(not hit.why for hit in hits)
    said = trn("{count} model loads here.", "{count} models load here.", count)
    said = said if count else tr("No model was found that loads here.")
    return " ".join(filter(None, (said, tr("There are more: more words narrow it.") if is_cut else "")))


def others_line(others: Sequence[Hit]) -> str:
    """Says what others are that do not load here; empty if there are none."""
    names = first_of(hit.detail or tr("no language model") for hit in others)
    one, many = "{count} other does not load here: {names}", "{count} others do not load here: {names}"
    return trn(one, many, len(others), names=names) if others else ""
