"""Reads the ``config.json`` of ModernBERT (arXiv 2412.13663). Knows no tensors.

transformers writes the rotation and the kinds of layers in full; older files have a theta for each kind and the number
of layers from one with full attention to the next.
"""

from __future__ import annotations

from typing import Any

from engine.config import LayerConfig, LayerKind
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import BLOCK, FULL, SLIDING, read_kinds

MASK = 50_284  # [MASK] of the published vocabulary, if neither file names it
THETAS = {FULL: 160_000.0, SLIDING: 10_000.0}
OLD_THETAS = {FULL: "global_rope_theta", SLIDING: "local_rope_theta"}
WINDOW, EVERY = 128, 3  # if the file does not say: local_attention, and layers from a full one to the next
PLAIN = {"attention_bias": False, "mlp_bias": False, "norm_bias": False, "classifier_bias": False, "decoder_bias": True}
"""The only values that are supported, which are those of the published models and of files that leave them out."""
GELU = ("hidden_activation", "classifier_activation")


def read_config(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` describes.

    ``sliding_window`` is the largest distance of a token that is seen on either side, plus one.

    Raises:
        SafelightError: a missing field, or a value that this engine does not implement.
    """
    for name, only in PLAIN.items():
        if raw.get(name, only) is not only:
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported in this family")
    for name in GELU:
        if raw.get(name, "gelu") != "gelu":
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported, only 'gelu'")
    if raw.get("tie_word_embeddings", True) is not True:
        raise SafelightError("config.json: a head of its own is not supported in this family")
    heads, hidden = (_need(raw, name) for name in ("num_attention_heads", "hidden_size"))
    check_whole("config.json: num_attention_heads", heads, 1, hidden)
    every = raw.get("global_attn_every_n_layers", EVERY)
    check_whole("config.json: global_attn_every_n_layers", every, 1, 160)
    kinds = read_kinds(raw, lambda index: FULL if index % every == 0 else SLIDING)
    thetas = {kind: _theta(raw, kind) for kind in (FULL, SLIDING)}
    window = raw.get("local_attention", WINDOW)
    check_whole("config.json: local_attention", window, 2, 2**24)
    return CausalConfig(
        vocab_size=_need(raw, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_need(raw, "intermediate_size"),
        num_attention_heads=heads,
        layers=tuple(LayerConfig(kind, hidden // heads, heads, thetas[kind], 1.0) for kind in kinds),
        sliding_window=window // 2 + 1,
        num_experts=0,
        top_k_experts=0,
        moe_intermediate_size=0,
        canvas_length=BLOCK,
        max_position_embeddings=_need(raw, "max_position_embeddings"),
        rms_norm_eps=raw.get("norm_eps", 1e-5),
        bos_token_id=raw.get("bos_token_id") or raw.get("cls_token_id") or 0,
        pad_token_id=raw.get("pad_token_id") or 0,
        tied=True,
        reads_whole=True,
        keeps_text=False,
        mask_token_id=MASK if raw.get("mask_token_id") is None else raw["mask_token_id"],
    )


def _need(raw: dict[str, Any], name: str) -> Any:
    if raw.get(name) is None:
        raise SafelightError(f"config.json: {name} is missing")
    return raw[name]


def _theta(raw: dict[str, Any], kind: LayerKind) -> Any:
    """Reads the theta of one kind of layers."""
    rope = raw.get("rope_parameters")
    own = rope.get(kind) if isinstance(rope, dict) else None
    if not isinstance(own, dict):
        return raw.get(OLD_THETAS[kind], THETAS[kind])
    if own.get("rope_type", "default") != "default":
        raise SafelightError(f"config.json: rope_type {quoted(own['rope_type'])} is not supported in this family")
    return own.get("rope_theta", THETAS[kind])
