"""The recipes for training a Sudoku adapter, as data: two recipes and the settings that may be changed. Needs no torch.

*uniform* is DiffusionGemma's public recipe, for large pretrained models: randomly corrupted answers, a few thousand
steps. *walk* is for small models, whose steps are cheap and which have much to learn: canvases during denoising, many
steps, matrices of high rank.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.training.recipes.recipe import schedule

States = Literal["uniform", "walk"]
Form = Literal["rows", "digits"]
STATES: tuple[States, ...] = ("uniform", "walk")
FORMS: tuple[Form, ...] = ("rows", "digits")
SMALL = 512  # hidden size up to which a model is trained on walks


def _check_least(settings: AdapterRecipe | AdapterRun, **least: int) -> None:
    for name, low in least.items():
        if getattr(settings, name) < low:
            raise SafelightError(f"{name} must be a whole number of {low} or more, not {getattr(settings, name)!r}")


@dataclass(frozen=True)
class AdapterRecipe:
    """All settings of a run besides its model, its data and its length.

    Args:
        states: the training states that the loss is computed on.
        rank_denoise, rank_causal: of the matrices in each mode; 0 trains none. With a causal rank the causal co-loss
            is on, with weight 1.
        optimizer: "adamw", or "muon", whose steps are orthogonalised.
        rate: highest learning rate. It rises over ``warmup_steps`` and falls to zero over the last ``decay_share``.
        batch: examples per step; for walks, canvases in the pool.
        ema: decay of the running average of the matrices, which is the result; 0 takes the matrices themselves.
        clip: largest norm of a step's gradients.
        form: puzzle and solution as "digits", 81 in a row, or as "rows", nine lines.
        easy_steps: steps at the beginning, with ``easy_givens``; later puzzles have ``givens``. For our own puzzles.
        retire_early, retire_late, late_share: see ``recipes.Recipe``; for walks.
        puzzles: number of minimal puzzles that our own data varies.
        eval_count: held-out puzzles that a measurement solves.
        recompute: gradient checkpointing.
        compiled: compile the walk's forward pass; twice as fast after two minutes, and needs a C++ compiler.
    """

    states: States
    rank_denoise: int
    rank_causal: int
    optimizer: Literal["adamw", "muon"]
    rate: float
    batch: int
    ema: float
    warmup_steps: int = 50
    decay_share: float = 0.35
    clip: float = 1.0
    form: Form = "rows"
    easy_steps: int = 0
    easy_givens: tuple[int, int] = (32, 60)
    givens: tuple[int, int] = (27, 52)
    retire_early: float = 0.5
    retire_late: float = 0.12
    late_share: float = 0.45
    puzzles: int = 24_000
    eval_count: int = 20
    recompute: bool = True
    compiled: bool = False

    def __post_init__(self) -> None:
        if self.states not in STATES:
            raise SafelightError(f"unknown states {self.states!r}; use {' or '.join(STATES)}")
        if self.form not in FORMS:
            raise SafelightError(f"unknown format {self.form!r}; use {' or '.join(FORMS)}")
        _check_least(self, rank_denoise=1, batch=1, puzzles=1, eval_count=1, rank_causal=0)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise SafelightError(f"rate must be a number above 0, not {self.rate!r}")
        if self.states == "walk" and self.rank_causal:
            raise SafelightError("walks train only the canvas, not the prompt; set rank_causal to 0")
        if self.compiled and self.states != "walk":
            raise SafelightError("only walks can be compiled; leave compiled out, or use the states walk")

    def factor(self, step: int, steps: int) -> float:
        """Returns the share of ``rate`` at a step: warm-up, constant, linear to zero."""
        return schedule(step, step, steps, self.warmup_steps, self.decay_share)

    def replace(self, **changes: Any) -> AdapterRecipe:
        """Returns a copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)


UNIFORM = AdapterRecipe(
    states="uniform", rank_denoise=8, rank_causal=8, optimizer="adamw", rate=1.5e-4, batch=16, ema=0.0
)
WALK = AdapterRecipe(
    states="walk",
    rank_denoise=64,
    rank_causal=0,
    optimizer="muon",
    rate=0.02,
    batch=64,
    ema=0.998,
    easy_steps=500,
    recompute=False,
)
STEPS = {"uniform": 2_000, "walk": 1_600}
"""The default number of steps of a run."""


def recipe_for(config: ModelConfig, states: States | None = None) -> AdapterRecipe:
    """Returns the recipe that suits a model, or that of the requested states, adjusted to the model's size."""
    is_small = config.hidden_size <= SMALL
    chosen = states or ("walk" if is_small else "uniform")
    if chosen not in STATES:
        raise SafelightError(f"unknown states {chosen!r}; use {' or '.join(STATES)}")
    return (WALK if chosen == "walk" else UNIFORM).replace(recompute=not is_small)


@dataclass(frozen=True)
class AdapterRun:
    """One run: its model, its folder, its data and its length.

    Args:
        model: folder or id of the model under the adapter; it stays unchanged.
        out: folder of the adapter, together with the run's log and checkpoint. A run in it is resumed.
        data: file of puzzles and solutions; None makes puzzles.
        steps: optimizer steps in all.
        eval_every, save_every: in steps; 0 measures nothing.
        device, dtype, quantization: as in ``load_model``.
    """

    model: str | Path
    out: Path
    recipe: AdapterRecipe
    steps: int
    data: Path | None = None
    eval_every: int = 500
    save_every: int = 100
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    quantization: str = "auto"

    def __post_init__(self) -> None:
        _check_least(self, steps=1, eval_every=0, save_every=1, seed=0)


@dataclass(frozen=True)
class PuzzlesMade:
    """Reports that puzzles for training were made."""

    done: int
    of: int


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
    causal_loss: float | None
    right: float | None  # for walks: share of the canvases whose best guess is the answer
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


TrainingRecord = PuzzlesMade | TrainingStarted | TrainingProgress | TrainingMeasured | TrainingEnded
