"""Reads the ``config.json`` of Qwen2, Qwen3, WeDLM, SDAR and Fast-dLLM v2. Knows no tensors.

All are one network. Qwen2 and Fast-dLLM v2 have biases in attention; Qwen3 and SDAR norm queries and keys; WeDLM is
one or the other, by its ``attention_bias``, as in its engine (Tencent/WeDLM), which has the same mask for files without
one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import flag, read_causal

WEDLM_MASK, SDAR_MASK = 151665, 151669
FAST_DLLM_MASK, FAST_DLLM_BLOCK = 151665, 32
THETA, WEDLM_THETA = 10_000.0, 1_000_000.0  # transformers', and that engine's, for files without rope_theta


def read_qwen2(raw: dict[str, Any], mask: int | None = None) -> CausalConfig:
    return read_causal(raw, rope_theta=THETA, mask_token_id=mask, attention_bias=True)


def read_qwen3(raw: dict[str, Any], mask: int | None = None) -> CausalConfig:
    bias = flag(raw, "attention_bias", False)
    return read_causal(
        raw, rope_theta=THETA, mask_token_id=mask, attention_bias=bias, output_bias=bias, query_key_norm=True
    )


def read_wedlm(raw: dict[str, Any]) -> CausalConfig:
    bias = flag(raw, "attention_bias", True)
    return read_causal(
        raw, rope_theta=WEDLM_THETA, mask_token_id=WEDLM_MASK, attention_bias=bias, query_key_norm=not bias
    )


def read_sdar(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config; see ``read_causal``.

    Raises:
        SafelightError: there is no ``block_size``: text in other blocks than those of its training comes out wrong.
    """
    if raw.get("block_size") is None:
        raise SafelightError(
            "config.json: block_size is missing, the tokens of a block that this model was trained with; write it "
            "there: 4 for SDAR-1.7B-Chat, -4B-Chat and -8B-Chat, and for others what their name ends with: 8 for -b8, "
            "16 for -b16, 32 for -b32, 64 for -b64"
        )
    return read_qwen3(raw, mask=SDAR_MASK)


def read_fast_dllm(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config of Fast-dLLM v2, whose files call the length of a block ``bd_size``; see ``read_causal``."""
    block = FAST_DLLM_BLOCK if raw.get("bd_size") is None else raw["bd_size"]
    shape = read_causal(raw, rope_theta=THETA, canvas_length=block, mask_token_id=FAST_DLLM_MASK, attention_bias=True)
    return replace(shape, shifts_masks=True)
