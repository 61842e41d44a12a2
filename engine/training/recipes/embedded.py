"""The embedded models: shapes, and how each is trained on two cores and on one card, as data. Needs no torch.

A step of these models is small. On two cores it is bound by arithmetic, and rows are made between the steps. On a card
a batch of 64 would be bound by launches, so a card takes 512, with higher rates, and its rows are made ahead by
processes of their own.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError

HEADS = 4


def schedule(step: int, done: float, whole: float, warmup_steps: int, decay_share: float) -> float:
    """Learning-rate factor: warm-up, constant, linear to zero over the last part of the run.

    Args:
        done, whole: of the run, in steps or in seconds.
    """
    falling = (whole - done) / max(1.0, decay_share * whole)
    return max(0.0, min((step + 1) / warmup_steps, 1.0, falling))


@dataclass(frozen=True)
class Feed:
    """What one pool is filled from: rows of a kind, so many at once, stepped every so many steps.

    Short and long are the skills: short prompts with the first block of their answer, and the rest. Brief, single, pair
    and joint are decisions: one question in a short prompt or a longer one, and several read from one canvas.
    """

    kind: Literal["sudoku", "short", "long", "brief", "single", "pair", "joint"]
    every: int
    rows: int

    @property
    def is_read(self) -> bool:
        """Its rows are read in one step; others are walked."""
        return self.kind in ("brief", "single", "pair", "joint")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run.

    Args:
        steps, minutes: how long it is, by the one that is not 0. Minutes count from the start, compiling included.
        producers: processes that make rows ahead, fewer where there are few cores; 0 makes them between the steps.
    """

    name: str
    hidden_size: int
    layers: int
    canvas_length: int
    max_position_embeddings: int
    max_new_tokens: int  # the checkpoint's default
    batch: int
    steps: int = 0
    minutes: float = 0.0
    producers: int = 0
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup_steps: int = 100
    decay_share: float = 0.35  # the last part of the run, over which the rates fall to zero
    ema: float = 0.998
    # Chance a step that an unfinished canvas is dropped. Short walks first, as an early model strays on long ones.
    retire_early: float = 0.5
    retire_late: float = 0.12
    late_share: float = 0.4  # the last part of the run, with long walks
    puzzles: int = 24_000  # minimal puzzles that the Sudoku source varies
    easy_steps: int = 600  # steps at the beginning, with puzzles of many givens
    mix: tuple[Feed, ...] = ()  # its feeds, where they do not follow from its name

    def __post_init__(self) -> None:
        if (self.steps > 0) == (self.minutes > 0):
            raise SafelightError("a run is so many steps or so many minutes long; give one of the two, above 0")
        if self.batch < 2:
            raise SafelightError(f"the batch must be 2 or more, not {self.batch}")
        if self.producers < 0:
            raise SafelightError(f"the number of producers must be 0 or more, not {self.producers}")

    @property
    def whole(self) -> float:
        """The run's length, in steps or in seconds."""
        return self.steps or 60 * self.minutes

    def done(self, step: int, seconds: float) -> float:
        """The part of ``whole`` that is done."""
        return step if self.steps else seconds

    def factor(self, step: int, done: float) -> float:
        """The share of the rates at a step."""
        return schedule(step, done, self.whole, self.warmup_steps, self.decay_share)

    def with_batch(self, batch: int) -> Recipe:
        """Another batch, and rates that follow its root: the noise of a step's gradients falls with it."""
        share = max(0, batch) / self.batch
        rows, growth = self.with_rows(share), math.sqrt(share)
        return dataclasses.replace(rows, batch=batch, muon_lr=growth * self.muon_lr, adam_lr=growth * self.adam_lr)

    def with_rows(self, share: float) -> Recipe:
        """So many times the rows a step, at the same rates."""
        mix = tuple(dataclasses.replace(feed, rows=max(1, round(share * feed.rows))) for feed in self.mix)
        return dataclasses.replace(self, batch=max(2, round(share * self.batch)), mix=mix)

    def feeds(self, trained: bool) -> list[Feed]:
        """Longer prompts come in a pool of their own. ``trained``: the run began with a trained model's weights."""
        if self.mix:
            return list(self.mix)
        feeds = []
        if self.name != "sudoku":
            feeds += [Feed("short", 1, self.batch), Feed("long", 4 if trained else 2, self.batch // 2)]
        if self.name == "sudoku":
            feeds += [Feed("sudoku", 1, self.batch)]
        elif self.name == "base":
            feeds += [Feed("sudoku", 3, self.batch // 2)]
        return feeds

    def givens(self, step: int, trained: bool) -> tuple[int, int]:
        """The fewest and the most givens of a Sudoku at a step; a base only learns what an answer looks like."""
        if self.name != "sudoku":
            return 25, 52
        if trained:
            return 24, 46
        return (32, 60) if step < self.easy_steps else (25, 50)

    def model_config(self) -> ModelConfig:
        """Five sliding layers to one full one; the last is full."""
        head_dim = self.hidden_size // HEADS
        sliding = LayerConfig("sliding_attention", head_dim, HEADS // 2, 10_000.0, 1.0)
        full = LayerConfig("full_attention", head_dim, 1, 1_000_000.0, 0.25)
        kinds = [full if (i + 1) % 6 == 0 or i == self.layers - 1 else sliding for i in range(self.layers)]
        return ModelConfig(
            vocab_size=128,
            hidden_size=self.hidden_size,
            intermediate_size=2 * self.hidden_size,
            num_attention_heads=HEADS,
            layers=tuple(kinds),
            sliding_window=256,
            num_experts=4,
            top_k_experts=2,
            moe_intermediate_size=self.hidden_size // 2,
            canvas_length=self.canvas_length,
            max_position_embeddings=self.max_position_embeddings,
        )


SUDOKU = Recipe(
    "sudoku",
    hidden_size=128,
    layers=6,
    canvas_length=96,
    max_position_embeddings=512,
    max_new_tokens=96,
    batch=64,
    steps=6600,
)
SKILLS = dataclasses.replace(SUDOKU, name="skills", canvas_length=64, max_new_tokens=256, steps=9500)
# After the skills: decisions, and enough of the skills that few are lost. At higher rates it does not stay stable.
DECISIONS = dataclasses.replace(
    SKILLS,
    name="decisions",
    steps=0,
    minutes=43.0,
    muon_lr=0.012,
    adam_lr=1.2e-3,
    decay_share=0.75,
    mix=(
        Feed("brief", 1, 24),
        Feed("single", 1, 12),
        Feed("short", 4, 16),
        Feed("long", 16, 8),
        Feed("pair", 4, 12),
        Feed("joint", 4, 8),
    ),
)
# What adapters are trained on: the skills on a canvas that holds a Sudoku, of which it sees a little.
BASE = dataclasses.replace(SUDOKU, name="base", max_new_tokens=288, steps=290)
RECIPES = {recipe.name: recipe for recipe in (SUDOKU, SKILLS, DECISIONS, BASE)}


def for_card(recipe: Recipe) -> Recipe:
    """The same model on one card: a larger batch for nine minutes. No card has run it yet."""
    large = dataclasses.replace(recipe.with_rows(512 / recipe.batch), warmup_steps=300, ema=0.999)
    large = dataclasses.replace(large, muon_lr=2 * recipe.muon_lr, adam_lr=2 * recipe.adam_lr)
    return dataclasses.replace(large, steps=0, minutes=9.0, producers=12)


CARD_RECIPES = {
    "sudoku": for_card(SUDOKU),
    "skills": for_card(SKILLS),
    "decisions": for_card(DECISIONS),
    "base": dataclasses.replace(
        BASE, producers=4
    ),  # longer, and it would learn to solve what it is to know the form of
}
