"""The recipe for training a Sudoku adapter, as data, and the records of a run. Needs no torch.

It is DiffusionGemma's public recipe, for pretrained models: randomly corrupted answers, a few thousand steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.config import ModelConfig
from engine.errors import SafelightError

Form = Literal["rows", "digits"]
FORMS: tuple[Form, ...] = ("rows", "digits")
SMALL = 512  # hidden size up to which a step keeps all activations
STEPS = 2_000  # of a run, unless it says another number


def _check_least(settings: AdapterRecipe | AdapterRun, **least: int) -> None:
    for name, low in least.items():
        if getattr(settings, name) < low:
            raise SafelightError(f"{name} must be a whole number of {low} or more, not {getattr(settings, name)!r}")


@dataclass(frozen=True)
class AdapterRecipe:
    """All settings of a run besides its model and its length.

    Args:
        rank: of the matrices in each mode.
        rate: highest learning rate. It rises over ``warmup_steps`` and falls to zero over the last ``decay_share``.
        batch: examples per step.
        clip: largest norm of a step's gradients.
        form: puzzle and solution as "digits", 81 in a row, or as "rows", nine lines.
        givens: of the puzzles, the fewest and the most.
        eval_count: held-out puzzles that a measurement solves.
        recompute: gradient checkpointing.
    """

    rank: int = 8
    rate: float = 1.5e-4
    batch: int = 16
    warmup_steps: int = 50
    decay_share: float = 0.35
    clip: float = 1.0
    form: Form = "rows"
    givens: tuple[int, int] = (27, 52)
    eval_count: int = 20
    recompute: bool = True

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise SafelightError(f"unknown format {self.form!r}; use {' or '.join(FORMS)}")
        _check_least(self, rank=1, batch=1, eval_count=1)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise SafelightError(f"rate must be a number above 0, not {self.rate!r}")

    def factor(self, step: int, steps: int) -> float:
        """Returns the share of ``rate`` at a step: warm-up, constant, linear to zero."""
        falling = (steps - step) / max(1.0, self.decay_share * steps)
        return max(0.0, min((step + 1) / self.warmup_steps, 1.0, falling))


def recipe_for(config: ModelConfig) -> AdapterRecipe:
    """Returns the recipe, adjusted to a model's size."""
    return AdapterRecipe(recompute=config.hidden_size > SMALL)


@dataclass(frozen=True)
class AdapterRun:
    """One run: its model, its folder and its length.

    Args:
        model: folder or id of the model under the adapter; it stays unchanged.
        out: folder of the adapter, together with the run's log and checkpoint. A run in it is resumed.
        steps: optimizer steps in all.
        eval_every, save_every: in steps; 0 measures nothing.
        device, dtype, quantization: as in ``load_model``.
    """

    model: str | Path
    out: Path
    recipe: AdapterRecipe
    steps: int
    eval_every: int = 500
    save_every: int = 100
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    quantization: str = "auto"

    def __post_init__(self) -> None:
        _check_least(self, steps=1, eval_every=0, save_every=1, seed=0)


@dataclass(frozen=True)
class TrainingStarted:
    """Reports that the model is loaded and fits into memory."""

    step: int  # above 0 if a run is resumed
    steps: int
    device: str
    parameters: int  # number of trained parameters
    bytes_needed: int
    bytes_free: int


@dataclass(frozen=True)
class TrainingProgress:
    """Means over the steps since the previous record. Losses are in nats per token."""

    step: int
    steps: int
    loss: float
    causal_loss: float
    rate: float
    steps_per_second: float


@dataclass(frozen=True)
class TrainingMeasured:
    """Results on held-out puzzles, solved by the ordinary sampler; shares are from 0 to 1."""

    step: int
    count: int
    exact: float
    cells: float  # share of the blanks
    givens_kept: float  # share of the puzzles with all givens kept
    steps_mean: float


@dataclass(frozen=True)
class TrainingEnded:
    """The last record. The adapter and a checkpoint are in the run's folder."""

    step: int
    steps: int
    out: Path

    @property
    def is_finished(self) -> bool:
        """True if all steps were taken; a stopped run resumes when it is started again."""
        return self.step >= self.steps


TrainingRecord = TrainingStarted | TrainingProgress | TrainingMeasured | TrainingEnded
