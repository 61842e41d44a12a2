"""Reads the ``config.json`` of Dream, Dream-Coder and DiffuCoder. Knows no tensors.

They are Qwen2.5 networks that see in both directions, and as in the autoregression that they began with, a row predicts
the token behind it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import read_causal

MASK, THETA = 151666, 10_000.0  # if the file has no mask_token_id or rope_theta
BLOCK = 512  # its authors write so many tokens as one block


def read_config(raw: dict[str, Any]) -> CausalConfig:
    read = read_causal(raw, rope_theta=THETA, canvas_length=BLOCK, mask_token_id=MASK, attention_bias=True)
    return dataclasses.replace(read, shifts_masks=True, mask_schedule="floor", reads_whole=True)
