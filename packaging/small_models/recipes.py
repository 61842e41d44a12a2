"""The small models: shapes and training recipes for two cores, as data. Needs no torch."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.config import LayerConfig, ModelConfig, VisionConfig
from engine.errors import SafelightError
from engine.text.tags import CALL, CALL_END, MARK

HEADS = 4
TEXT_TOKENS = 128
IMAGE_MARKS = ("<|image>", "<|image|>", "<image|>")  # tokens after the text tokens: begin, soft and end of an image
TOOL_MARKS = (CALL, CALL_END, MARK, "<|tool>", "<|tool_response>", "<tool_response|>")


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
    ``teacher``: the name of the trained model that knows such rows, if the run is given it.
    """

    kind: FeedKind
    every: int
    rows: int
    budget: int = 70
    teacher: str = ""

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
    """

    name: str
    batch: int
    steps: int = 0
    minutes: float = 0.0
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

    @abstractmethod
    def model_config(self) -> ModelConfig:
        """Returns the shape of the model."""

    @abstractmethod
    def feeds(self, trained: bool) -> list[Feed]:
        """Returns the feeds of the pools. ``trained``: the run began with a trained model's weights."""

    @property
    def whole(self) -> float:
        """Returns the run's length, in steps or in seconds."""
        return self.steps or 60 * self.minutes

    def done(self, step: int, seconds: float) -> float:
        """Returns the part of ``whole`` that is done."""
        return step if self.steps else seconds

    def factor(self, step: int, done: float) -> float:
        """Returns the share of the rates at a step: warm-up, constant, linear to zero over the last part of the run."""
        falling = (self.whole - done) / max(1.0, self.decay_share * self.whole)
        return max(0.0, min((step + 1) / self.warmup_steps, 1.0, falling))


@dataclass(frozen=True, kw_only=True)
class Recipe(TrainingRecipe):
    """All settings of a training run of a DiffusionGemma."""

    hidden_size: int
    layers: int
    canvas_length: int
    max_position_embeddings: int
    max_new_tokens: int  # the checkpoint's default
    sliding_window: int = 256
    # Probability per step that an unfinished canvas is dropped. Short walks first: an early model strays on long ones.
    retire_early: float = 0.5
    retire_late: float = 0.12
    late_share: float = 0.4  # the last part of the run, with long walks
    puzzles: int = 24_000  # number of minimal puzzles that the Sudoku source varies
    easy_steps: int = 600  # steps at the beginning, with puzzles of many givens
    rank: int = 0  # of the matrices of an adapter, which is trained in place of the model
    mix: tuple[Feed, ...] = ()  # its feeds, if they do not follow from its name
    vision: VisionConfig | None = None  # its tower begins untrained, even in a trained model
    tower_rates: float = 1.0  # the tower's rates, relative to those of the rest

    def feeds(self, trained: bool) -> list[Feed]:
        """Returns the feeds; longer prompts have their own pool."""
        if self.mix:
            return list(self.mix)
        if self.is_sudoku:
            return [Feed("sudoku", 1, self.batch)]
        feeds = [Feed("short", 1, self.batch), Feed("long", 4 if trained else 2, self.batch // 2)]
        return [*feeds, Feed("sudoku", 3, self.batch // 2)] if self.name == "base" else feeds

    @property
    def is_sudoku(self) -> bool:
        """True if all rows are Sudokus."""
        return self.name in ("sudoku", "adapter")

    @property
    def fills_gaps(self) -> bool:
        """True if the model learns to pad a gap that is longer than its text."""
        return any(feed.kind == "gaps" for feed in self.mix)

    @property
    def calls_tools(self) -> bool:
        """True if the model learns to call tools."""
        return any(feed.kind == "calls" for feed in self.mix)

    @property
    def marks(self) -> tuple[str, ...]:
        """Returns the special tokens that follow the text tokens."""
        return (() if self.vision is None else IMAGE_MARKS) + (TOOL_MARKS if self.calls_tools else ())

    def givens(self, step: int, trained: bool) -> tuple[int, int]:
        """Returns the fewest and the most givens of a Sudoku at a step; a base only learns the form of an answer."""
        if not self.is_sudoku:
            return 25, 52
        if trained:
            return 24, 46
        if step < self.easy_steps:
            return 32, 60
        return (27, 52) if self.rank else (25, 50)

    def model_config(self) -> ModelConfig:
        """Returns a config with five sliding layers to one full one; the last is full."""
        head_dim = self.hidden_size // HEADS
        sliding = LayerConfig("sliding_attention", head_dim, HEADS // 2, 10_000.0, 1.0)
        full = LayerConfig("full_attention", head_dim, 1, 1_000_000.0, 0.25)
        kinds = [full if (i + 1) % 6 == 0 or i == self.layers - 1 else sliding for i in range(self.layers)]
        return ModelConfig(
            vocab_size=TEXT_TOKENS + len(self.marks),
            hidden_size=self.hidden_size,
            intermediate_size=2 * self.hidden_size,
            num_attention_heads=HEADS,
            layers=tuple(kinds),
            sliding_window=self.sliding_window,
            num_experts=4,
            top_k_experts=2,
            moe_intermediate_size=self.hidden_size // 2,
            canvas_length=self.canvas_length,
            max_position_embeddings=self.max_position_embeddings,
            vision=self.vision,
            pads_gaps=self.fills_gaps,
        )


SUDOKU = Recipe(
    name="sudoku",
    hidden_size=128,
    layers=6,
    canvas_length=96,
    max_position_embeddings=512,
    max_new_tokens=96,
    batch=64,
    steps=6600,
)
SKILLS = dataclasses.replace(SUDOKU, name="skills", canvas_length=64, max_new_tokens=256, steps=9500)
# After the skills: decisions, and enough of the skills to build on. Higher rates are unstable. The window holds a whole
# prompt: with the skills' window a third question is out of sight of the text in all layers but the last.
DECISIONS = dataclasses.replace(
    SKILLS,
    name="decisions",
    steps=0,
    minutes=135.0,
    muon_lr=0.01,
    adam_lr=1e-3,
    decay_share=0.8,
    sliding_window=512,
    mix=(
        Feed("brief", 1, 12),
        Feed("single", 1, 12),
        Feed("pair", 1, 10),
        Feed("joint", 1, 12),
        Feed("short", 16, 8),
    ),
)
# After the skills: texts with a gap, and enough of the skills to keep them.
GAPS = dataclasses.replace(
    SKILLS,
    name="gaps",
    steps=0,
    minutes=125.0,
    batch=44,
    decay_share=0.5,
    retire_late=0.5,
    mix=(Feed("gaps", 1, 32), Feed("gap", 1, 12), Feed("short", 2, 16), Feed("long", 4, 16)),
)
# After the skills: questions with tools, results of calls, and enough of the skills to keep them.
TOOLS = dataclasses.replace(
    SKILLS,
    name="tools",
    steps=0,
    minutes=127.0,
    batch=38,
    decay_share=0.5,
    retire_late=0.5,
    mix=(Feed("calls", 1, 16), Feed("results", 1, 12), Feed("short", 2, 16), Feed("long", 3, 12)),
)
# After the tools: decisions, with the models that knew each of them alone as teachers.
MINI = dataclasses.replace(
    TOOLS,
    name="mini",
    minutes=240.0,
    muon_lr=0.012,
    adam_lr=1.2e-3,
    decay_share=0.6,
    sliding_window=512,
    mix=(
        Feed("brief", 1, 8, teacher="decisions"),
        Feed("single", 2, 8, teacher="decisions"),
        Feed("pair", 2, 8, teacher="decisions"),
        Feed("joint", 1, 8, teacher="decisions"),
        Feed("calls", 1, 12, teacher="tools"),
        Feed("results", 2, 12, teacher="tools"),
        Feed("short", 1, 24),
        Feed("long", 2, 12),
    ),
)
# After the skills: drawings, photographed Sudokus, and enough of the skills to keep some. A drawing of 128 x 128 pixels
# takes 64 soft tokens; a Sudoku is read with 280, so that a cell of its grid is almost two of them wide.
SIGHT = dataclasses.replace(
    SKILLS,
    name="sight",
    steps=0,
    minutes=100.0,
    canvas_length=32,
    muon_lr=0.01,
    adam_lr=1e-3,
    decay_share=0.3,
    ema=0.995,
    retire_late=0.5,
    sliding_window=512,  # holds a prompt with a picture
    mix=(
        Feed("drawings", 1, 12),
        Feed("sudokus", 1, 6, 280),
        Feed("cells", 2, 12),
        Feed("drawings", 5, 6, 140),
        Feed("short", 24, 24),
    ),
    tower_rates=3.0,
    vision=VisionConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=24,
        patch_size=8,
        pooling_kernel_size=2,
        position_embedding_size=140,
        begin_token_id=TEXT_TOKENS,
        image_token_id=TEXT_TOKENS + 1,
        end_token_id=TEXT_TOKENS + 2,
        standardize=False,
    ),
)
# The base of adapters: the skills on a canvas large enough for a Sudoku, of which it sees a little.
BASE = dataclasses.replace(SUDOKU, name="base", max_new_tokens=288, steps=290)
# The adapter by which the base solves Sudokus.
ADAPTER = dataclasses.replace(
    SUDOKU, name="adapter", rank=64, steps=1600, easy_steps=500, warmup_steps=50, late_share=0.45
)
RECIPES = {recipe.name: recipe for recipe in (SUDOKU, SKILLS, GAPS, TOOLS, DECISIONS, MINI, SIGHT, BASE, ADAPTER)}
