"""Looks for models in the stores of other programs, in a thread, and counts the memory of those that are shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.models import tasks, words
from app.models.entries import ModelEntry, added_entry
from app.models.found_section import FoundSection
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.models.listed import LocalFolders
from app.models.memory import MemoryPlans
from app.system.i18n import tr
from engine.found import FoundModel, Why


class FoundModels(QObject):
    """Keeps what was found, and shows what of it the page does not list anyway."""

    failed = Signal(str)  # nothing was found in a folder that the user has just added

    def __init__(
        self,
        jobs: Jobs,
        plans: MemoryPlans,
        local: LocalFolders,
        section: FoundSection,
        holder: Callable[[], ModelEntry | None],
    ) -> None:
        super().__init__(section)
        self._jobs, self._plans, self._local, self._section, self._holder = jobs, plans, local, section, holder
        self._found: tuple[FoundModel, ...] = ()
        self._entries: dict[str, ModelEntry] = {}  # of rows, for their plans
        self._taken: frozenset[Path] = frozenset()
        self._new: set[Path] = set()  # folders that were added since the last search
        section.turned.connect(self._count)
        section.dropped.connect(self.drop)

    def look(self) -> None:
        """Begins a search."""
        self._jobs.submit(ModelJob("", "find", tasks.find(self._local.places())))

    def add(self, place: Path) -> None:
        """Looks into a folder, from now on each time."""
        self._local.add_place(place)
        self._new.add(place)
        self.look()

    @Slot(str)
    def drop(self, place: str) -> None:
        """Looks into a folder no longer."""
        self._local.remove_place(Path(place))
        self.look()

    def leave_out(self, folders: Collection[Path]) -> None:
        """Takes what the page lists elsewhere."""
        if self._taken != folders:
            self._taken = frozenset(folders)
            for folder in folders:
                self._entries.pop(str(folder), None)  # counted again should it return
            self._show()

    def _show(self) -> None:
        shown = [each for each in self._found if each.path not in self._taken]
        self._section.show_models(shown, [str(place) for place in self._local.places()])

    @Slot()
    def _count(self) -> None:
        """Counts the memory of models whose rows have just appeared."""
        for path in self._section.rows:
            if path not in self._entries:
                self._entries[path] = added_entry(Path(path))
                self._plans.count([self._entries[path]])
        self._say()

    def _say(self) -> None:
        shown = {path: self._entries[path] for path in self._section.rows}
        self._section.say({path: self._plans.words(entry, self._holder()) for path, entry in shown.items()})

    def take(self, ended: JobEnded) -> None:
        """Takes the result of a search."""
        self._found = ended.result if isinstance(ended.result, tuple) else ()
        for place in () if ended.failure else self._new:
            if not any(each.path.is_relative_to(place) for each in self._found):
                self._local.remove_place(place)
                self.failed.emit(tr("No model was found in {folder}.", folder=place))
        self._new.clear()
        self._entries.clear()  # to be counted with the memory that is free now
        self._show()

    def counted(self, path: str) -> None:
        """Shows whether a model fits, whose memory was counted; one that cannot run leaves the rows."""
        if path not in self._section.rows:
            return
        if (why := self._refusal(path)) is None:
            self._say()
            return
        self._found = tuple(
            dataclasses.replace(each, why=why[0], detail=why[1]) if str(each.path) == path else each
            for each in self._found
        )
        self._show()

    def _refusal(self, path: str) -> tuple[Why, str] | None:
        """Returns why a model whose memory was counted cannot run; None if it can."""
        plan = self._plans.plan(path)
        if plan is None:
            return "damaged", self._plans.words(self._entries[path], None)[0]
        is_too_large = plan.total_bytes > plan.device_bytes and plan.longest < words.LEAST_CONTEXT
        return ("size", words.amount(plan.total_bytes)) if is_too_large else None
