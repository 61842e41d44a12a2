"""Reads the image part of a ``config.json``. Knows no tensors."""

from __future__ import annotations

from typing import Any

from engine.config import VisionConfig
from engine.errors import SafelightError


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
