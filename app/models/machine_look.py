"""Looks at this computer in jobs: what it is, which model suits it, and how fast its processor reads weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, QSettings, Signal, Slot

from app.models import hero_words, tasks
from app.models.entries import ModelEntry
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.state.models.recommendation import Choice, Recommendation, recommend
from app.state.models.speed import bytes_a_token, tokens_a_second
from engine import PUBLISHED
from engine.catalog import GEMMA_4_BIT, TALK
from engine.memory.machine import Machine

if TYPE_CHECKING:
    from engine.memory.plan import Plan

KEY = "models/weight_bytes_a_second"
Found = tuple[Machine, dict[Choice, int], dict[Choice, float]]


class MachineLook(QObject):
    """``recommended`` is None until the computer was looked at."""

    changed = Signal()  # what is known of the computer
    failed = Signal(str, str)  # message, details

    def __init__(self, jobs: Jobs, settings: QSettings, look: Callable[[], Machine]) -> None:
        super().__init__()
        self._jobs, self._settings, self._look = jobs, settings, look
        self.machine: Machine | None = None
        self.recommended: Recommendation | None = None
        self._found: Found | None = None
        jobs.ended.connect(self._ended)

    def begin(self) -> None:
        """Looks at the computer, once."""
        if self.machine is None:
            self._jobs.submit(ModelJob("", "look", tasks.look(self._look)))

    @Slot()
    def measure(self) -> None:
        """Measures the processor with Safelight Talk."""
        self._jobs.submit(ModelJob("", "measure", tasks.measure()))
        self.changed.emit()

    @property
    def is_measuring(self) -> bool:
        return self._jobs.phase("", "measure") is not None

    @property
    def can_measure(self) -> bool:
        """True if a measurement would say something about the recommended model."""
        return TALK.is_here and self.recommended is not None and not self.recommended.on_card

    @property
    def rate(self) -> float:
        """Returns the measured bytes of weights a second; 0 if nothing was measured."""
        try:
            return max(0.0, float(str(self._settings.value(KEY, 0.0))))
        except ValueError:
            return 0.0

    def speed_line(self, entry: ModelEntry, plan: Plan | None) -> str:
        """Says how fast the recommended model is expected to be; ``plan`` is its memory plan."""
        if self.machine is None or self.recommended is None:
            return ""
        if self.recommended.on_card and self.machine.card is not None:
            return hero_words.card_speed(self.machine.card, is_predicted=entry.key == GEMMA_4_BIT)
        rate, tokens = self.rate, None
        if rate and plan is not None:
            share = next((model.expert_share for model in PUBLISHED if model.repo == entry.key), 1.0)
            tokens = tokens_a_second(rate, bytes_a_token(plan.parts, share))
        return hero_words.processor_speed(tokens, rate, by_diffusion=entry.writes == "diffusion")

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        if ended.kind not in ("look", "measure"):
            return
        if ended.failure is not None:
            self.failed.emit(str(ended.failure), ended.details)
        elif ended.kind == "measure":
            self._settings.setValue(KEY, cast(float, ended.result))
        else:
            self._found = cast(Found, ended.result)
        self._recommend()
        self.changed.emit()

    def _recommend(self) -> None:
        if self._found is None:
            return
        self.machine, needs, reads = self._found
        rate = self.rate
        speeds = {choice: tokens_a_second(rate, read) for choice, read in reads.items()} if rate else None
        self.recommended = recommend(self.machine, needs, speeds, has_talk=TALK.is_here)
