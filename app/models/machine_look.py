"""Looks at this computer in jobs: what it is, which model suits it, and how fast models are expected to be on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal, Slot

from app.models import hero_words, tasks
from app.models.entries import ModelEntry
from app.models.jobs import JobEnded, JobKind, JobProgress, Jobs, ModelJob
from app.state.models.recommendation import Choice, Recommendation, recommend
from engine import PUBLISHED
from engine.catalog import GEMMA_4_BIT, TALK
from engine.memory.machine import Machine

if TYPE_CHECKING:
    from engine.kernels.measurement import Measurement
    from engine.memory.plan import Plan

KEY = ""  # of the job that measures
KIND: JobKind = "measure"


class MachineLook(QObject):
    """``recommended`` is None until the computer was looked at, ``made`` until its processor was measured.

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
        self._free = 0  # bytes that a model could take, when memory was last planned
        self.machine: Machine | None = None
        self.recommended: Recommendation | None = None
        self.made: Measurement | None = None
        self.share = 0.0  # of the measurement that is made now
        self._plans: dict[Choice, Plan] = {}
        jobs.progressed.connect(self._progressed)
        jobs.ended.connect(self._ended)

    def begin(self) -> None:
        """Looks at the computer, once."""
        if self.machine is None:
            self._jobs.submit(ModelJob("", "look", tasks.look(self._look)))

    def know_free(self, free: int) -> None:
        """Takes the bytes that a model could take now, and recommends again."""
        before, self._free = self.recommended, free
        self._recommend()
        if self.recommended != before:
            self.changed.emit()

    @Slot()
    def measure(self) -> None:
        """Measures the processor; while that goes on, stops it."""
        if self.is_measuring:
            self._jobs.stop(KEY, KIND)
        else:
            self.share = 0.0
            self._jobs.submit(ModelJob(KEY, KIND, tasks.measure()))
        self.changed.emit()

    @property
    def is_measuring(self) -> bool:
        return self._jobs.phase(KEY, KIND) is not None

    @property
    def is_stopping(self) -> bool:
        return self._jobs.phase(KEY, KIND) == "cancelling"

    @property
    def can_measure(self) -> bool:
        """True if a measurement would say something about the models here."""
        return self.recommended is not None and not self.recommended.on_card

    def speed_line(self, entry: ModelEntry, plan: Plan | None, *, is_hero: bool) -> str:
        """Says how fast a model is expected to be, by its memory plan; of a card only if it is recommended."""
        if self.machine is None or self.recommended is None:
            return ""
        if self.recommended.on_card and self.machine.card is not None:
            is_predicted = entry.key == GEMMA_4_BIT
            return hero_words.card_speed(self.machine.card, is_predicted=is_predicted) if is_hero else ""
        speed = None
        if plan is not None and self.made is not None:
            from engine.memory.speed import speed_of  # imports torch, which the plan has done by now

            speed = speed_of(plan, self.made)
        if speed is not None:
            return hero_words.processor_speed(speed)
        return hero_words.not_measured() if is_hero and (self.made is None or (plan is not None and plan.fits)) else ""

    @Slot(object)
    def _progressed(self, progress: JobProgress) -> None:
        if progress.kind == KIND:
            self.share = progress.share
            self.changed.emit()

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        if ended.kind not in ("look", KIND):
            return
        if ended.failure is not None:
            self.failed.emit(str(ended.failure), ended.details)
        elif ended.kind == KIND:
            self.made = cast("Measurement | None", ended.result) or self.made
        else:
            self.machine, self._plans, self.made = cast(
                "tuple[Machine, dict[Choice, Plan], Measurement | None]", ended.result
            )
            self._free = min(plan.free_bytes for plan in self._plans.values())
        self._recommend()
        self.changed.emit()

    def _recommend(self) -> None:
        if self.machine is None:
            return
        needs = {choice: plan.total_bytes for choice, plan in self._plans.items() if self._has_disk(choice[0])}
        free = self._free + self._held()
        self.recommended = recommend(self.machine, needs, free, self._speeds(), has_talk=TALK.is_here)

    def _speeds(self) -> dict[Choice, float] | None:
        """Returns the expected tokens a second on the processor by choice; None where it was not measured."""
        if self.made is None:
            return None
        from engine.memory.speed import expected  # imports torch, which the look has done by now

        found = dict[Choice, float]()
        tokens = {model.repo: model.tokens_a_step for model in PUBLISHED}
        for choice, plan in self._plans.items():
            speed = None if plan.work is None else expected(plan.work, self.made, plan.threads)
            if speed is None:
                return None
            in_steps = tokens[choice[0]] / speed.step_seconds if speed.step_seconds else 0.0
            found[choice] = in_steps or speed.tokens_per_second or 0.0
        return found
