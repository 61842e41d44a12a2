"""Reads the ``config.json`` of Gemma 3: of text-only models, and the text part of those that see. Knows no tensors.

Sliding layers have their own rotation base; stretching applies to the full ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.config import MAX_LAYERS
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import FULL, SLIDING, flag, read_causal, read_kinds

THETA, NEAR_THETA = 1_000_000.0, 10_000.0  # of full and of sliding layers, if the file has none
PATTERN = 6  # one layer in so many is full, if the file does not say
DEFAULTS = {  # transformers', for what published files leave out
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def read_seeing(raw: dict[str, Any]) -> CausalConfig:
    """Reads the ``text_config`` of a model that sees; see ``read_causal``."""
    return read_text(raw["text_config"])


def read_text(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config of a model of text; see ``read_causal``."""
    raw = DEFAULTS | {name: value for name, value in raw.items() if value is not None}
    for name in ("final_logit_softcapping", "attn_logit_softcapping"):
        if name in raw:
            raise SafelightError(f"config.json: {name} is not supported in this family")
    if raw.get("use_bidirectional_attention"):
        raise SafelightError("config.json: use_bidirectional_attention is not supported, only causal models of text")
    if not flag(raw, "tie_word_embeddings", True):
        raise SafelightError("config.json: tie_word_embeddings must be true")
    full, near = _ropes(raw)
    bias = flag(raw, "attention_bias", False)
    shared = read_causal(
        {**raw, "rope_parameters": full},
        rope_theta=THETA,
        attention_bias=bias,
        output_bias=bias,
        query_key_norm=True,
        tied=True,
        kinds=read_kinds(raw, lambda index: SLIDING if (index + 1) % _pattern(raw) else FULL),
        near_theta=near.get("rope_theta", NEAR_THETA),
        activation="gelu_pytorch_tanh",
    )
    return dataclasses.replace(
        shared,
        query_divisor=raw["query_pre_attn_scalar"],
        scales_embeddings=True,
        norms_add_one=True,
        norms_results=True,
    )


def _pattern(raw: dict[str, Any]) -> int:
    found: int = raw.get("sliding_window_pattern", PATTERN)
    check_whole("config.json: sliding_window_pattern", found, 1, MAX_LAYERS)
    return found


def _ropes(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the rotation of full and of sliding layers, in the form that ``read_causal`` takes."""
    found = raw.get("rope_parameters")
    if found is None:  # files before transformers 5
        found = {
            FULL: {"rope_theta": raw.get("rope_theta", THETA), **raw.get("rope_scaling", {})},
            SLIDING: {"rope_theta": raw.get("rope_local_base_freq", NEAR_THETA)},
        }
    full, near = (found.get(kind) or {} for kind in (FULL, SLIDING))
    if near.get("rope_type", "default") != "default":
        raise SafelightError(
            f"config.json: rope_type {quoted(near['rope_type'])} of sliding layers is not supported, only 'default'"
        )
    return full, near
