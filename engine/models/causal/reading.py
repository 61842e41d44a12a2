"""Reads the ``config.json`` of a dense causal transformer, as transformers writes it for Qwen, Llama and the like.

A family passes the values that its files leave open, or name differently. Knows no tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from engine.config import (
    MAX_EXPERTS,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_LAYERS,
    Activation,
    ExpertRouting,
    LayerConfig,
    LayerKind,
)
from engine.declared import check_real, check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig, LinearScaling, Llama3Scaling, QueryScaling, RopeScaling, Yarn

BLOCK = 32  # positions shown at once if tokens are not decoded in blocks; from WeDLM's and Nemotron's training
FULL: Final[LayerKind] = "full_attention"
SLIDING: Final[LayerKind] = "sliding_attention"


def read_causal(
    raw: dict[str, Any],
    *,
    rope_theta: float,
    canvas_length: int = BLOCK,
    mask_token_id: int | None = None,
    attention_bias: bool = False,
    output_bias: bool = False,
    query_key_norm: bool = False,
    tied: bool = False,
    has_window: bool = False,
    kinds: Sequence[LayerKind] | None = None,
    near_theta: float | None = None,
    turns: Sequence[bool] | None = None,
    activation: Activation = "silu",
) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` describes.

    Args:
        rope_theta, canvas_length, mask_token_id, tied: used if the file has none; the length is its ``block_size``.
        has_window: whether ``sliding_window`` is used if the file does not say.
        kinds: kinds of the layers, for a family that may have sliding windows; None: a window is refused.
        near_theta: rope_theta of sliding layers; None: that of the others.
        turns: which layers rotate queries and keys; None: all.
        activation: the only one that the family has.

    Raises:
        SafelightError: a missing field, or a value that this engine does not implement.
    """
    kinds = kinds or _full_kinds(raw, has_window)
    heads = need_whole(raw, "num_attention_heads", MAX_HEADS)
    hidden = need_whole(raw, "hidden_size", MAX_HEADS * MAX_HEAD_DIM)
    theta, rope_scaling, query_scaling = _read_rope(raw, rope_theta)
    head = raw.get("head_dim") or hidden // heads, raw.get("num_key_value_heads") or heads
    layers = _layers(kinds, turns, head, {FULL: theta, SLIDING: given_or(near_theta, theta)})
    positions, slides = _need(raw, "max_position_embeddings"), SLIDING in kinds
    return CausalConfig(
        vocab_size=_need(raw, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_need(raw, "intermediate_size"),
        num_attention_heads=heads,
        layers=layers,
        sliding_window=_need(raw, "sliding_window") if slides else positions,
        num_experts=0,
        top_k_experts=0,
        moe_intermediate_size=0,
        canvas_length=given_or(raw.get("block_size"), canvas_length),
        max_position_embeddings=positions,
        rms_norm_eps=given_or(raw.get("rms_norm_eps"), 1e-6),
        bos_token_id=_token_in(raw, "bos_token_id"),
        pad_token_id=_token_in(raw, "pad_token_id", "eos_token_id"),
        attention_bias=attention_bias,
        output_bias=output_bias,
        query_key_norm=query_key_norm,
        tied=flag(raw, "tie_word_embeddings", tied),
        mask_token_id=given_or(raw.get("mask_token_id"), mask_token_id),
        rope_scaling=rope_scaling,
        query_scaling=query_scaling,
        activation=_check_mlp(raw, activation),
    )


def _layers(
    kinds: Sequence[LayerKind], turns: Sequence[bool] | None, head: tuple[int, int], thetas: dict[LayerKind, float]
) -> tuple[LayerConfig, ...]:
    """Returns a config for each layer; ``head``: numbers of a head, and heads of keys and values."""
    pairs = zip(kinds, turns or [True] * len(kinds), strict=True)
    return tuple(LayerConfig(kind, *head, thetas[kind], float(does_turn)) for kind, does_turn in pairs)


def _need(raw: dict[str, Any], name: str) -> Any:
    if raw.get(name) is None:
        raise SafelightError(f"config.json: {name} is missing")
    return raw[name]


def need_whole(raw: dict[str, Any], name: str, most: int) -> int:
    value: int = _need(raw, name)
    check_whole(f"config.json: {name}", value, 1, most)
    return value


def _check_mlp(raw: dict[str, Any], activation: Activation) -> Activation:
    named = given_or(raw.get("hidden_act"), given_or(raw.get("hidden_activation"), activation))
    if named != activation:
        raise SafelightError(f"config.json: hidden_act {quoted(named)} is not supported, only {activation!r}")
    if raw.get("mlp_bias"):
        raise SafelightError("config.json: mlp_bias is not supported")
    return activation


def read_kinds(raw: dict[str, Any], default: Callable[[int], LayerKind]) -> tuple[LayerKind, ...]:
    """Reads the kind of each layer from ``layer_types``, or by the layer's number if the file has none.

    Raises:
        SafelightError: they are none, or not as many as there are layers.
    """
    count: Any = raw.get("num_hidden_layers")
    kinds = raw.get("layer_types")
    check_whole("config.json: num_hidden_layers", count, 1, MAX_LAYERS)
    if kinds is None:
        return tuple(map(default, range(count)))
    known = isinstance(kinds, list) and all(kind in (FULL, SLIDING) for kind in kinds)
    if not known or len(kinds) != count:
        raise SafelightError(f"config.json: layer_types must name {count} layers as {FULL} or {SLIDING}")
    return tuple(kinds)


def flag(raw: dict[str, Any], name: str, default: bool) -> bool:
    """Returns a field that is true or false."""
    return bool(given_or(raw.get(name), default))


def given_or(value: Any, default: Any) -> Any:
    """Returns a value, or the default in place of None."""
    return default if value is None else value


def _token_in(raw: dict[str, Any], *names: str) -> Any:
    """Returns the first token id that a field holds, alone or in a list; 0 without one."""
    values = (raw.get(name) for name in names)
    firsts = ((value[0] if value else None) if isinstance(value, list) else value for value in values)
    return next((first for first in firsts if first is not None), 0)


def _full_kinds(raw: dict[str, Any], has_window: bool) -> tuple[LayerKind, ...]:
    """Returns the kinds of layers that all have full attention.

    Raises:
        SafelightError: a layer has a sliding window.
    """
    count, kinds = need_whole(raw, "num_hidden_layers", MAX_LAYERS), raw.get("layer_types")
    if kinds is None:
        first = raw.get("max_window_layers")  # the layer from which the window is used
        begins = not (isinstance(first, int) and first >= count)
        slides = begins and raw.get("sliding_window") is not None and flag(raw, "use_sliding_window", has_window)
    else:
        slides = not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)
    if slides:
        raise SafelightError("config.json: a sliding window is not supported, only full attention in every layer")
    return (FULL,) * count


def _read_rope(raw: dict[str, Any], theta: float) -> tuple[float, RopeScaling | None, QueryScaling | None]:
    """Reads theta, and the scaling for more positions than the model was trained on.

    ``rope_parameters`` holds all of it; older files have ``rope_scaling``, and theta next to it.
    """
    rope: dict[str, Any] = given_or(given_or(raw.get("rope_parameters"), raw.get("rope_scaling")), {})
    theta = given_or(rope.get("rope_theta"), given_or(raw.get("rope_theta"), theta))
    if given_or(rope.get("partial_rotary_factor"), 1.0) != 1.0:
        raise SafelightError("config.json: partial_rotary_factor is not supported")
    beta, original = rope.get("llama_4_scaling_beta"), rope.get("original_max_position_embeddings")
    query_scaling = None if beta is None or original is None else QueryScaling(beta, original)
    return theta, _read_scaling(raw, rope), query_scaling


def _read_scaling(raw: dict[str, Any], rope: dict[str, Any]) -> RopeScaling | None:
    kind = given_or(rope.get("rope_type"), given_or(rope.get("type"), "default"))

    def need(name: str) -> Any:
        if rope.get(name) is None:
            raise SafelightError(f"config.json: {name} of rope_parameters is missing; {quoted(kind)} needs it")
        return rope[name]

    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(need("factor"))
        case "llama3":
            bounds = need("low_freq_factor"), need("high_freq_factor")
            return Llama3Scaling(need("factor"), need("original_max_position_embeddings"), *bounds)
        case "yarn":
            return _read_yarn(raw, rope, need("factor"))
    raise SafelightError(
        f"config.json: rope_type {quoted(kind)} is not supported, only 'default', 'linear', 'llama3' and 'yarn'"
    )


def _read_yarn(raw: dict[str, Any], rope: dict[str, Any], factor: Any) -> Yarn:
    original = given_or(rope.get("original_max_position_embeddings"), raw.get("max_position_embeddings"))
    check_real("config.json: factor of rope_parameters", factor, 0.0, exclusive=True)

    def grown(scale: Any) -> float:
        check_real("config.json: mscale of rope_parameters", scale, 0.0)
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    attention, mscale, mscale_all = (rope.get(name) for name in ("attention_factor", "mscale", "mscale_all_dim"))
    if attention is None:
        attention = grown(mscale) / grown(mscale_all) if mscale and mscale_all else grown(1.0)
    return Yarn(
        factor=factor,
        original=original,
        beta_fast=rope.get("beta_fast") or 32.0,
        beta_slow=rope.get("beta_slow") or 1.0,
        attention_factor=attention,
        truncate=given_or(rope.get("truncate"), True),
    )


MAX_WIDTH = 2**20


def with_experts(config: CausalConfig, raw: dict[str, Any], routing: ExpertRouting, dense: int = 0) -> CausalConfig:
    """Returns a shape whose layers, except the first ``dense`` ones, have experts in place of their MLPs.

    Raises:
        SafelightError: a missing field, or a value that does not fit.
    """
    check_whole("config.json: first_k_dense_replace", dense, 0, MAX_LAYERS)
    return replace(
        config,
        layers=tuple(replace(layer, is_dense=index < dense) for index, layer in enumerate(config.layers)),
        num_experts=need_whole(raw, "num_experts", MAX_EXPERTS),
        top_k_experts=need_whole(raw, "num_experts_per_tok", MAX_EXPERTS),
        moe_intermediate_size=need_whole(raw, "moe_intermediate_size", MAX_WIDTH),
        routing=routing,
    )
