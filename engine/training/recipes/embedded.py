"""The embedded models: shapes and training recipes for two cores and for one card, as data. Needs no torch.

A step of these models is small. On two cores it is bound by arithmetic, and rows are made between the steps. On a card
a batch of 64 would be bound by launches, so a card takes 512, with higher rates, and its rows are made ahead by
processes of their own.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from engine.config import LayerConfig, ModelConfig, VisionConfig
from engine.text.tags import CALL, CALL_END, MARK
from engine.training.recipes.recipe import Feed, TrainingRecipe

HEADS = 4
TEXT_TOKENS = 128
IMAGE_MARKS = ("<|image>", "<|image|>", "<image|>")  # tokens after the text tokens: begin, soft and end of an image
TOOL_MARKS = (CALL, CALL_END, MARK, "<|tool>", "<|tool_response>", "<tool_response|>")


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
    mix: tuple[Feed, ...] = ()  # its feeds, if they do not follow from its name
    vision: VisionConfig | None = None  # its tower begins untrained, even in a trained model
    tower_rates: float = 1.0  # the tower's rates, relative to those of the rest

    def with_rows(self, share: float) -> Recipe:
        mix = tuple(dataclasses.replace(feed, rows=max(1, round(share * feed.rows))) for feed in self.mix)
        return dataclasses.replace(self, batch=max(2, round(share * self.batch)), mix=mix)

    def feeds(self, trained: bool) -> list[Feed]:
        """Returns the feeds; longer prompts have their own pool."""
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
        if self.name != "sudoku":
            return 25, 52
        if trained:
            return 24, 46
        return (32, 60) if step < self.easy_steps else (25, 50)

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
RECIPES = {recipe.name: recipe for recipe in (SUDOKU, SKILLS, GAPS, TOOLS, DECISIONS, SIGHT, BASE)}


CARD_RECIPES = {name: recipe.for_card() for name, recipe in RECIPES.items()}
# Trained longer, it would learn to solve Sudokus instead of only their form.
CARD_RECIPES["base"] = dataclasses.replace(BASE, producers=4)
