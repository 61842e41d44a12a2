"""The shape of a dense causal transformer. Which file says so is its family's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from engine.config import MOST_POSITIONS, MOST_TOKENS, LayerConfig, ModelConfig, check_real, check_whole
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
class Llama3Scaling:
    """Stretches a rotation over more positions than it was trained on, as Llama 3.1 does.

    Args:
        factor: by which slow pairs are slowed down.
        original: positions that it was trained on.
        low, high: turns within those, up to which a pair is slowed down by all of ``factor``, and from which on it
            stays as it is; in between by a share.
    """

    factor: float
    original: int
    low: float
    high: float

    def __post_init__(self) -> None:
        check_whole("config.json: original_max_position_embeddings", self.original, 1, MOST_POSITIONS)
        check_real("config.json: factor of rope_parameters", self.factor, 1e-3)
        check_real("config.json: low_freq_factor of rope_parameters", self.low, 0.0)
        check_real("config.json: high_freq_factor of rope_parameters", self.high, 0.0)
        if self.low >= self.high:
            raise SafelightError("config.json: low_freq_factor must be below high_freq_factor")


@dataclass(frozen=True)
class LinearScaling:
    """All pairs of a rotation are slowed down by ``factor``."""

    factor: float

    def __post_init__(self) -> None:
        check_real("config.json: factor of rope_parameters", self.factor, 1e-3)


RopeScaling: TypeAlias = Yarn | Llama3Scaling | LinearScaling


@dataclass(frozen=True)
class CausalConfig(ModelConfig):
    """Shape of a dense causal model, with the fields that its families differ in.

    Args:
        attention_bias: of query, key and value projections.
        output_bias: of the projection behind attention.
        query_key_norm: whether queries and keys are normed, a head at a time.
        tied: whether the table of the tokens is the head, too.
        mask_token_id: of what is not written yet; None: the model was never shown any.
        rope_scaling: of the rotation in full layers; None where there is none.
        query_scaling: None where there is none.
        query_divisor: queries are divided by its root; None: by that of a head's size.
        activation: of the gated MLP.
        scales_embeddings: whether embeddings are multiplied by the root of the hidden size.
        norms_add_one: whether a norm multiplies by one more than its weight.
        norms_results: whether the results of attention and MLP are normed before they are added.
    """

    denoises: ClassVar[bool] = False

    attention_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    tied: bool = False
    mask_token_id: int | None = None
    rope_scaling: RopeScaling | None = None
    query_scaling: QueryScaling | None = None
    query_divisor: float | None = None
    activation: Literal["silu", "gelu_pytorch_tanh"] = "silu"
    scales_embeddings: bool = False
    norms_add_one: bool = False
    norms_results: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rope_scaling, Yarn) and any(layer.rope_theta <= 1.0 for layer in self.layers):
            raise SafelightError("config.json: rope_theta must be above 1 with YaRN")
        if self.query_divisor is not None:
            check_real("config.json: query_pre_attn_scalar", self.query_divisor, 1e-3)
        if self.mask_token_id is not None:
            check_whole("config.json: mask_token_id", self.mask_token_id, 0, min(MOST_TOKENS, self.vocab_size) - 1)

    def scaling_of(self, layer: LayerConfig) -> RopeScaling | None:
        """Returns how the rotation of a layer is stretched; None: it is not."""
        return None if layer.is_sliding or layer.partial_rotary_factor == 0 else self.rope_scaling
