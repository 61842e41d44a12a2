"""Looks at this computer in a job: what it is, and which model suits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal, Slot

from app.models import tasks
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.state.models.recommendation import Choice, Recommendation, recommend
from engine.memory.machine import Machine

if TYPE_CHECKING:
    from engine.memory.plan import Plan


class MachineLook(QObject):
    """``recommended`` is None until the computer was looked at.

    Args:
        held: returns the bytes that unloading the loaded model would free.
        has_disk: returns whether a published model is here, or its download fits on the disk.
    """

    changed = Signal()  # what is known of the computer
    failed = Signal(str, str)  # message, details

    def __init__(
        self, jobs: Jobs, look: Callable[[], Machine], held: Callable[[], int], has_disk: Callable[[str], bool]
    ) -> None:
        super().__init__()
        self._jobs, self._look, self._held, self._has_disk = jobs, look, held, has_disk
        self.machine: Machine | None = None
        self.recommended: Recommendation | None = None
        jobs.ended.connect(self._ended)

    def begin(self) -> None:
        """Looks at the computer, once."""
        if self.machine is None:
            self._jobs.submit(ModelJob("", "look", tasks.look(self._look)))

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        if ended.kind != "look":
            return
        if ended.failure is not None:
            self.failed.emit(str(ended.failure), ended.details)
        else:
            self.machine, plans = cast("tuple[Machine, dict[Choice, Plan]]", ended.result)
            needs = {choice: plan.total_bytes for choice, plan in plans.items() if self._has_disk(choice[0])}
            free = min(plan.free_bytes for plan in plans.values()) + self._held()
            self.recommended = recommend(self.machine, needs, free)
            self.changed.emit()
