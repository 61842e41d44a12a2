"""The shape of a causal transformer, dense or with experts. Each family reads it from its own files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from engine.config import MAX_POSITIONS, MAX_VOCABULARY, Activation, ExpertRouting, LayerConfig, ModelConfig
from engine.declared import check_real, check_whole
from engine.errors import SafelightError


@dataclass(frozen=True)
class Yarn:
    """Stretching of a rotation over more positions than it was trained on (YaRN, arXiv 2309.00071).

    Args:
        factor: slow pairs are slowed down by it.
        original: positions that it was trained on.
        beta_fast, beta_slow: turns within those, at or above the first of which a pair stays unchanged, and up to the
            second of which it is slowed down by all of ``factor``; in between by a share.
        attention_factor: multiplies cosines and sines.
        truncate: True if the range between consists of whole pairs.
    """

    factor: float
    original: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        check_whole("config.json: original_max_position_embeddings", self.original, 1, MAX_POSITIONS)
        for name in ("factor", "beta_fast", "beta_slow", "attention_factor"):
            check_real(f"config.json: {name} of rope_parameters", getattr(self, name), 1e-3)
        if not isinstance(self.truncate, bool):
            raise SafelightError("config.json: truncate of rope_parameters must be true or false")


@dataclass(frozen=True)
class QueryScaling:
    """Multiplies queries by 1 + beta * log(1 + floor(position / period)), after their rotation (Llama 4's)."""

    beta: float
    period: int

    def __post_init__(self) -> None:
        check_real("config.json: llama_4_scaling_beta", self.beta, 0.0)
        check_whole("config.json: original_max_position_embeddings", self.period, 1, MAX_POSITIONS)


@dataclass(frozen=True)
class Llama3Scaling:
    """Stretches a rotation over more positions than it was trained on, as Llama 3.1 does.

    Args:
        factor: slow pairs are slowed down by it.
        original: positions that it was trained on.
        low, high: turns within those. Pairs with at most ``low`` turns are slowed down by all of ``factor``, pairs with
            ``high`` or more stay unchanged, and pairs between are slowed by a share.
    """

    factor: float
    original: int
    low: float
    high: float

    def __post_init__(self) -> None:
        check_whole("config.json: original_max_position_embeddings", self.original, 1, MAX_POSITIONS)
        check_real("config.json: factor of rope_parameters", self.factor, 1e-3)
        check_real("config.json: low_freq_factor of rope_parameters", self.low, 0.0)
        check_real("config.json: high_freq_factor of rope_parameters", self.high, 0.0)
        if self.low >= self.high:
            raise SafelightError("config.json: low_freq_factor must be below high_freq_factor")


@dataclass(frozen=True)
class LinearScaling:
    """Slows down all pairs of a rotation by ``factor``."""

    factor: float

    def __post_init__(self) -> None:
        check_real("config.json: factor of rope_parameters", self.factor, 1e-3)


RopeScaling: TypeAlias = Yarn | Llama3Scaling | LinearScaling


@dataclass(frozen=True)
class CausalConfig(ModelConfig):
    """Shape of a causal model, with the fields that its families differ in.

    Args:
        attention_bias: of query, key and value projections.
        output_bias: of the projection after attention.
        query_key_norm: whether queries and keys are normed, a head at a time.
        tied: whether the token table is also the head.
        mask_token_id: the token of an unwritten position; None: the model was trained without one.
        shifts_masks: whether a mask's token is predicted by the row before it, as in autoregression.
        mask_schedule: how many masks of a block each pass writes, where that is a number of them: "even", "floor",
            "round" or "ceil"; see ``decoding.masked_run.counts``.
        blocks_follow_prompt: whether a block begins behind the prompt, so that the first one may be shorter; else the
            first one begins at the first token.
        rope_scaling: of the rotation in full layers; None: unscaled.
        query_scaling: None: queries are not scaled.
        query_divisor: queries are divided by its root; None: by that of a head's size.
        rotated: numbers of a head, from the first, that are rotated; None: all.
        is_fused: whether query, key and value projections are one matrix.
        routing: of the experts; None: all MLPs are dense.
        activation: of the gated MLPs.
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
    shifts_masks: bool = False
    mask_schedule: str = "even"
    blocks_follow_prompt: bool = False
    rope_scaling: RopeScaling | None = None
    query_scaling: QueryScaling | None = None
    query_divisor: float | None = None
    rotated: int | None = None
    is_fused: bool = False
    routing: ExpertRouting | None = None
    activation: Activation = "silu"
    scales_embeddings: bool = False
    norms_add_one: bool = False
    norms_results: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rope_scaling, Yarn) and any(layer.rope_theta <= 1.0 for layer in self.layers):
            raise SafelightError("config.json: rope_theta must be above 1 with YaRN")
        if self.query_divisor is not None:
            check_real("config.json: query_pre_attn_scalar", self.query_divisor, 1e-3)
        if self.rotated is not None:
            most = min(layer.head_dim for layer in self.layers)
            check_whole("config.json: numbers of a head that are rotated", self.rotated, 2, most)
            if self.rotated % 2:
                raise SafelightError(f"config.json: {self.rotated} numbers of a head are rotated; they must be even")
        if self.routing is not None:
            self.routing.check(self.num_experts, self.top_k_experts)
        if self.mask_token_id is not None:
            check_whole("config.json: mask_token_id", self.mask_token_id, 0, min(MAX_VOCABULARY, self.vocab_size) - 1)

    def scaling_of(self, layer: LayerConfig) -> RopeScaling | None:
        """Returns the stretching of a layer's rotation; None: there is none."""
        return None if layer.is_sliding or layer.partial_rotary_factor == 0 else self.rope_scaling

    def dense_width(self, layer: LayerConfig, /) -> int:
        return self.intermediate_size if self.routing is None or layer.is_dense else self.routing.shared_width
