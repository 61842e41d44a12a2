"""The embedded models: shapes and schedules, as data."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import LayerConfig, ModelConfig

HEADS = 4


def schedule(step: int, steps: int, warmup_steps: int, decay_share: float) -> float:
    """Learning-rate factor: warm-up, constant, linear to zero over the last part of the run."""
    falling = (steps - step) / max(1.0, decay_share * steps)
    return max(0.0, min((step + 1) / warmup_steps, 1.0, falling))


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run besides its length."""

    name: str
    hidden_size: int
    layers: int
    canvas_length: int
    max_position_embeddings: int
    max_new_tokens: int  # the checkpoint's default
    batch: int
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    warmup_steps: int = 100
    decay_share: float = 0.35  # the last part of the run, over which the rates fall to zero
    ema: float = 0.998
    # Chance a step that an unfinished canvas is dropped. Short walks first: a young model wanders off on long ones.
    retire_early: float = 0.5
    retire_late: float = 0.12
    late_share: float = 0.4  # the last part of the run, with long walks
    puzzles: int = 24_000  # minimal puzzles that the Sudoku source varies

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


RECIPES = {
    "sudoku": Recipe(
        "sudoku", hidden_size=128, layers=6, canvas_length=96, max_position_embeddings=512, max_new_tokens=96, batch=64
    ),
    "skills": Recipe(
        "skills", hidden_size=128, layers=6, canvas_length=64, max_position_embeddings=512, max_new_tokens=256, batch=64
    ),
    # What adapters are trained on: the skills on a canvas that holds a Sudoku, of which it sees a little.
    "base": Recipe(
        "base", hidden_size=128, layers=6, canvas_length=96, max_position_embeddings=512, max_new_tokens=288, batch=64
    ),
}
