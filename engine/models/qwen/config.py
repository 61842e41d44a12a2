"""Reads the ``config.json`` of Qwen2, Qwen3, WeDLM and SDAR. Knows no tensors.

All four are one network. Qwen2 has biases in attention; Qwen3 and SDAR norm queries and keys; WeDLM is one or the
other, by its ``attention_bias``. WeDLM's engine (Tencent/WeDLM) does the same, and uses the same mask if a file has
none.
"""

from __future__ import annotations

from typing import Any

from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import BLOCK, flag, read_causal

WEDLM_MASK, SDAR_MASK = 151665, 151669
THETA, WEDLM_THETA = 10_000.0, 1_000_000.0  # transformers', and that engine's, for files without rope_theta


def read_qwen2(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config; see ``read_causal``."""
    return _read(raw, bias=True, output_bias=False, norm=False)


def read_qwen3(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config; see ``read_causal``."""
    bias = flag(raw, "attention_bias", False)
    return _read(raw, bias=bias, output_bias=bias, norm=True)


def read_wedlm(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config; see ``read_causal``."""
    bias = flag(raw, "attention_bias", True)
    return _read(raw, WEDLM_MASK, theta=WEDLM_THETA, bias=bias, output_bias=False, norm=not bias)


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
    bias = flag(raw, "attention_bias", False)
    return _read(raw, SDAR_MASK, bias=bias, output_bias=bias, norm=True)


def _read(
    raw: dict[str, Any],
    mask: int | None = None,
    theta: float = THETA,
    *,
    bias: bool,
    output_bias: bool,
    norm: bool,
) -> CausalConfig:
    return read_causal(
        raw,
        canvas_length=BLOCK,
        mask_token_id=mask,
        attention_bias=bias,
        output_bias=output_bias,
        query_key_norm=norm,
        rope_theta=theta,
    )
