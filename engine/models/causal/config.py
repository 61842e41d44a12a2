"""The shape of a dense causal transformer. Which file says so is its family's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.config import MOST_POSITIONS, MOST_TOKENS, ModelConfig, check_real, check_whole
from engine.errors import SafelightError


@dataclass(frozen=True)
class Yarn:
    """How a rotation is stretched over more positions than it was trained on (YaRN, arXiv 2309.00071).

    Args:
        factor: by which slow pairs are slowed down.
        original: positions that it was trained on.
        beta_fast, beta_slow: turns within those, from which on a pair stays as it is, and up to which it is slowed
            down by all of ``factor``; in between by a share.
        attention_factor: multiplies cosines and sines.
        truncate: whether the pairs between are counted in whole ones.
    """

    factor: float
    original: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        check_whole("config.json: original_max_position_embeddings", self.original, 1, MOST_POSITIONS)
        for name in ("factor", "beta_fast", "beta_slow", "attention_factor"):
            check_real(f"config.json: {name} of rope_parameters", getattr(self, name), 1e-3)
        if not isinstance(self.truncate, bool):
            raise SafelightError("config.json: truncate of rope_parameters must be true or false")


@dataclass(frozen=True)
class QueryScaling:
    """Queries times 1 + beta * log(1 + floor(position / period)), after their rotation (Llama 4's)."""

    beta: float
    period: int

    def __post_init__(self) -> None:
        check_real("config.json: llama_4_scaling_beta", self.beta, 0.0)
        check_whole("config.json: original_max_position_embeddings", self.period, 1, MOST_POSITIONS)


@dataclass(frozen=True)
class CausalConfig(ModelConfig):
    """What Qwen's, Mistral's and their like differ in. All layers attend to everything.

    Args:
        attention_bias: of query, key and value projections.
        output_bias: of the projection behind attention.
        query_key_norm: whether queries and keys are normed, a head at a time.
        tied: whether the table of the tokens is the head, too.
        mask_token_id: of what is not written yet; None: the model was never shown any.
        yarn, query_scaling: None where there is none.
    """

    denoises: ClassVar[bool] = False

    attention_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    tied: bool = False
    mask_token_id: int | None = None
    yarn: Yarn | None = None
    query_scaling: QueryScaling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.yarn is not None and any(layer.rope_theta <= 1.0 for layer in self.layers):
            raise SafelightError("config.json: rope_theta must be above 1 with YaRN")
        if self.mask_token_id is not None:
            check_whole("config.json: mask_token_id", self.mask_token_id, 0, min(MOST_TOKENS, self.vocab_size) - 1)
