"""The memory that each model needs, compared with what is free, and the sentence about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from app.models import tasks, words
from app.models.entries import ModelEntry
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.state.models.recommendation import Choice, Recommendation, recommend
from app.system.i18n import tr
from engine.catalog import SMALL
from engine.memory.machine import Machine
from engine.model_files import is_gguf

if TYPE_CHECKING:
    from engine.memory.plan import Plan


class MachineLook:
    """``recommended`` is None until the computer was looked at.

    Args:
        held_bytes: returns the bytes that unloading the loaded model would free.
        has_disk: returns whether a published model is here, or its download fits on the disk.
        then: takes the end of the look.
    """

    def __init__(
        self,
        jobs: Jobs,
        look: Callable[[], Machine],
        held_bytes: Callable[[], int],
        has_disk: Callable[[str], bool],
        then: Callable[[JobEnded], object],
    ) -> None:
        self._jobs, self._look, self._held_bytes, self._has_disk, self._then = jobs, look, held_bytes, has_disk, then
        self.machine: Machine | None = None
        self.recommended: Recommendation | None = None

    def start(self) -> None:
        """Looks at the computer, once."""
        if self.machine is None:
            self._jobs.submit(ModelJob("", "look", tasks.look(self._look), self._ended))

    def _ended(self, ended: JobEnded) -> None:
        if ended.failure is None:
            self.machine, plans = cast("tuple[Machine, dict[Choice, Plan]]", ended.result)
            needs = {choice: plan.total_bytes for choice, plan in plans.items() if self._has_disk(choice[0])}
            free = min(plan.free_bytes for plan in plans.values()) + self._held_bytes()
            self.recommended = recommend(self.machine, needs, free)
        self._then(ended)


class MemoryPlans:
    """Memory plans by entry key. Planning is a job, since it imports torch."""

    def __init__(self, jobs: Jobs, machine: Callable[[], Machine], then: Callable[[JobEnded], object]) -> None:
        """``then`` takes the end of each job that planned."""
        self._jobs, self._machine, self._then = jobs, machine, then
        self._plans: dict[str, Plan | str] = {}  # the plan, or why there is none

    def count(self, entries: Iterable[ModelEntry]) -> None:
        """Plans again with the memory that is free now. A GGUF file is planned once: reading its header takes
        seconds."""
        for entry in entries:
            is_known = is_gguf(entry.folder) and self.plan(entry.key) is not None
            if _countable(entry) and not is_known:
                self._jobs.submit(ModelJob(entry.key, "plan", tasks.plan(entry, self._machine), self._planned))

    def _planned(self, ended: JobEnded) -> None:
        self._plans[ended.key] = cast("Plan", ended.result) if ended.failure is None else str(ended.failure)
        self._then(ended)

    def forget(self, key: str) -> None:
        """Drops a removed entry's plan."""
        self._plans.pop(key, None)

    def plan(self, key: str) -> Plan | None:
        """Returns an entry's plan; None if it is not counted yet, or cannot be."""
        plan = self._plans.get(key)
        return None if isinstance(plan, str) else plan

    def copy_bytes(self, key: str) -> int:
        """Returns the bytes on disk of the copy that an import would write; 0 if unknown."""
        plan = self.plan(key)
        return 0 if plan is None else plan.copy_bytes

    def held(self, holder: ModelEntry | None) -> int:
        """Returns the bytes that unloading ``holder`` would free."""
        plan = None if holder is None else self.plan(holder.key)
        return 0 if plan is None else plan.released_bytes

    def words(self, entry: ModelEntry, holder: ModelEntry | None) -> tuple[str, str]:
        """Returns the sentence about memory and its tool tip; ``holder`` is the loaded entry."""
        if not _countable(entry):
            return "", ""
        plan = self._plans.get(entry.key)
        if plan is None:
            return tr("Counting the memory that it needs…"), ""
        if isinstance(plan, str):
            return plan, ""
        line = words.memory_line(plan, loaded=entry is holder, held_bytes=self.held(holder))
        return line, words.memory_tip(plan)


def _countable(entry: ModelEntry) -> bool:
    if entry.key == SMALL:
        return False
    return entry.state in ("ready", "gguf") or (entry.shape != "" and entry.state in ("absent", "unfinished"))
