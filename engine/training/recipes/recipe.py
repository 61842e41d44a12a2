"""The settings of every training run of a small model, as data: length, rates, rows. Needs no torch."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from engine.config import ModelConfig
from engine.errors import SafelightError


def schedule(step: int, done: float, whole: float, warmup_steps: int, decay_share: float) -> float:
    """Returns the learning-rate factor: warm-up, constant, linear to zero over the last part of the run.

    Args:
        done, whole: of the run, in steps or in seconds.
    """
    falling = (whole - done) / max(1.0, decay_share * whole)
    return max(0.0, min((step + 1) / warmup_steps, 1.0, falling))


FeedKind: TypeAlias = Literal[
    "sudoku", "short", "long", "brief", "single", "pair", "joint", "text", "drawings", "sudokus", "cells", "gap",
    "gaps", "calls", "results",
]  # fmt: skip


@dataclass(frozen=True)
class Feed:
    """The input of one pool: rows of a kind, ``rows`` at once, used every ``every`` steps.

    Short and long are the skills: short prompts with the first block of their answer, and the rest. Brief, single, pair
    and joint are decisions: one question in a short prompt or a longer one, and several read from one canvas. Text is
    whole skills, packed for a causal model. Drawings and Sudokus are pictures, each with several questions;
    cells are Sudokus without questions. Gap is a text with a gap; gaps are several on a canvas. Calls are questions
    with tools; results have the call and its result in the prompt. ``budget``: maximum soft tokens of a picture.
    """

    kind: FeedKind
    every: int
    rows: int
    budget: int = 70

    @property
    def is_read(self) -> bool:
        """True if the rows are read in one step; others are walked."""
        return self.kind in ("brief", "single", "pair", "joint")

    @property
    def has_slots(self) -> bool:
        """True if only some positions of a canvas are to be written, and the others are given."""
        return self.is_read or self.kind in ("gap", "gaps")


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe(ABC):
    """The settings shared by the recipes of all families.

    Args:
        batch: examples per step.
        steps, minutes: the length; one of them is 0. Minutes count from the start, compiling included.
        producers: processes that make rows ahead, fewer on a machine with few cores; 0 makes them between the steps.
    """

    name: str
    batch: int
    steps: int = 0
    minutes: float = 0.0
    producers: int = 0
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup_steps: int = 100
    decay_share: float = 0.35  # the last part of the run, over which the rates fall to zero
    ema: float = 0.998

    def __post_init__(self) -> None:
        if (self.steps > 0) == (self.minutes > 0):
            raise SafelightError("a run is so many steps or so many minutes long; give one of the two, above 0")
        if self.batch < 2:
            raise SafelightError(f"the batch must be 2 or more, not {self.batch}")
        if self.producers < 0:
            raise SafelightError(f"the number of producers must be 0 or more, not {self.producers}")

    @abstractmethod
    def model_config(self) -> ModelConfig:
        """Returns the shape of the model."""

    @abstractmethod
    def feeds(self, trained: bool) -> list[Feed]:
        """Returns the feeds of the pools. ``trained``: the run began with a trained model's weights."""

    @abstractmethod
    def with_rows(self, share: float) -> Self:
        """Returns a copy with ``share`` times the rows per step, at the same rates."""

    @property
    def whole(self) -> float:
        """Returns the run's length, in steps or in seconds."""
        return self.steps or 60 * self.minutes

    def done(self, step: int, seconds: float) -> float:
        """Returns the part of ``whole`` that is done."""
        return step if self.steps else seconds

    def factor(self, step: int, done: float) -> float:
        """Returns the share of the rates at a step."""
        return schedule(step, done, self.whole, self.warmup_steps, self.decay_share)

    def with_batch(self, batch: int) -> Self:
        """Returns a copy with another batch, and rates that follow its root, as the noise of gradients does."""
        share = max(0, batch) / self.batch
        rows, growth = self.with_rows(share), math.sqrt(share)
        return dataclasses.replace(rows, batch=batch, muon_lr=growth * self.muon_lr, adam_lr=growth * self.adam_lr)

    def for_card(self) -> Self:
        """Returns the recipe for one card: batches of 512 for nine minutes. No card has run it yet."""
        large = dataclasses.replace(self.with_rows(512 / self.batch), warmup_steps=300, ema=0.999)
        large = dataclasses.replace(large, muon_lr=2 * self.muon_lr, adam_lr=2 * self.adam_lr)
        return dataclasses.replace(large, steps=0, minutes=9.0, producers=12)
