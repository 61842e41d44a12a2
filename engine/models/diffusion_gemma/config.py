"""Reads DiffusionGemma's ``config.json``. Knows no tensors. ``registry`` finds the family of a file."""

from __future__ import annotations

from typing import Any

from engine.config import MAX_LAYERS, LayerConfig, ModelConfig, VisionConfig
from engine.declared import check_whole
from engine.errors import SafelightError, quoted


def read_config(raw: dict[str, Any]) -> ModelConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field or a value this engine does not implement.
    """
    text = raw["text_config"]

    def need(name: str) -> Any:
        if text.get(name) is None:
            raise SafelightError(f"config.json: text_config.{name} is missing")
        return text[name]

    if text.get("use_bidirectional_attention") == "all":
        raise SafelightError("config.json: use_bidirectional_attention 'all' is not supported, only causal prefill")
    if text.get("attention_bias"):
        raise SafelightError("config.json: attention_bias is not supported")
    if text.get("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
        raise SafelightError(f"config.json: hidden_activation {quoted(text['hidden_activation'])} is not supported")
    if not raw.get("tie_word_embeddings", True):
        raise SafelightError("config.json: tie_word_embeddings must be true")

    return ModelConfig(
        vocab_size=need("vocab_size"),
        hidden_size=need("hidden_size"),
        intermediate_size=need("intermediate_size"),
        num_attention_heads=need("num_attention_heads"),
        layers=_read_layers(text, need),
        sliding_window=need("sliding_window"),
        num_experts=need("num_experts"),
        top_k_experts=need("top_k_experts"),
        moe_intermediate_size=need("moe_intermediate_size"),
        canvas_length=raw.get("canvas_length") or 256,
        pads_gaps=raw.get("gap_padding") is True,  # of our own small models
        max_position_embeddings=need("max_position_embeddings"),
        rms_norm_eps=text.get("rms_norm_eps", 1e-6),
        final_logit_softcapping=text.get("final_logit_softcapping") or 30.0,
        bos_token_id=_first(text.get("bos_token_id"), 2),
        pad_token_id=_first(text.get("pad_token_id"), 0),
        vision=read_vision(raw, need("vocab_size")),
    )


def _first(value: Any, default: int) -> Any:
    if isinstance(value, list):
        value = value[0] if value else None
    return default if value is None else value


def _read_layers(text: dict[str, Any], need: Any) -> tuple[LayerConfig, ...]:
    """Returns the layers' configs, from ``per_layer_config`` or the flat ``global_*`` fields of released files."""
    count = need("num_hidden_layers")
    check_whole("config.json: num_hidden_layers", count, 1, MAX_LAYERS)
    kinds = text.get("layer_types") or [
        "full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(count)
    ]
    if len(kinds) != count:
        raise SafelightError(f"config.json: {len(kinds)} layer_types for {count} layers")
    overrides = text.get("per_layer_config")
    ropes = text.get("rope_parameters") or {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    }
    layers = []
    for index, kind in enumerate(kinds):
        if kind not in ("sliding_attention", "full_attention"):
            raise SafelightError(f"config.json: layer {index} has the unknown kind {quoted(kind)}")
        if overrides is not None:
            own = overrides.get(str(index), {})
        elif kind == "full_attention":
            own = {
                "head_dim": text.get("global_head_dim") or 512,
                "num_key_value_heads": text.get("num_global_key_value_heads") or need("num_key_value_heads"),
            }
        else:
            own = {}
        rope = ropes[kind]
        expected = "proportional" if kind == "full_attention" else "default"
        if rope.get("rope_type") not in ("default", "proportional") or rope.get("factor", 1.0) != 1.0:
            raise SafelightError(
                f"config.json: {kind} has rope_type {quoted(rope.get('rope_type'))}; expected {expected!r}"
            )
        layers.append(
            LayerConfig(
                kind=kind,
                head_dim=own.get("head_dim") or need("head_dim"),
                num_key_value_heads=own.get("num_key_value_heads") or need("num_key_value_heads"),
                rope_theta=rope["rope_theta"],
                partial_rotary_factor=rope.get("partial_rotary_factor", 1.0),
            )
        )
    return tuple(layers)


def read_vision(raw: dict[str, Any], vocab_size: int) -> VisionConfig | None:
    """Returns the shape of the tower that a parsed ``config.json`` describes.

    Returns:
        None if there is none, if its kind is not implemented, or if the tokens of images are not within the model's
        ``vocab_size``. The model then reads only text.

    Raises:
        SafelightError: a field is missing or of no use.
    """
    vision = raw.get("vision_config")
    if vision is None:
        return None
    rope = vision.get("rope_parameters") or {}
    known = (
        vision.get("model_type") == "gemma4_vision"
        and vision.get("hidden_activation", "gelu_pytorch_tanh") == "gelu_pytorch_tanh"
        and rope.get("rope_type", "axial") in ("axial", "default")
        and not vision.get("use_clipped_linears")  # the bounds of such layers would be additional tensors
        and not vision.get("attention_bias")
    )
    if not known:
        return None

    def need(name: str, values: dict[str, Any] = vision, default: Any = None) -> Any:
        found = values.get(name)
        found = default if found is None else found
        if found is None:
            raise SafelightError(f"config.json: vision_config.{name} is missing")
        return found

    heads = need("num_attention_heads")
    found = VisionConfig(
        hidden_size=need("hidden_size"),
        intermediate_size=need("intermediate_size"),
        num_hidden_layers=need("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=need("num_key_value_heads", default=heads),
        head_dim=need("head_dim"),
        patch_size=need("patch_size", default=16),
        pooling_kernel_size=need("pooling_kernel_size", default=3),
        position_embedding_size=need("position_embedding_size", default=10_240),
        begin_token_id=need("boi_token_id", raw, 255_999),
        image_token_id=need("image_token_id", raw, 258_880),
        end_token_id=need("eoi_token_id", raw, 258_882),
        rope_theta=need("rope_theta", rope, 100.0),
        rms_norm_eps=need("rms_norm_eps", default=1e-6),
        standardize=need("standardize", default=False),
    )
    return found if max(found.begin_token_id, found.image_token_id, found.end_token_id) < vocab_size else None
