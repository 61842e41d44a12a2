"""Reads the ``config.json`` of Nemotron-Labs-Diffusion, which is based on Ministral 3. Knows no tensors."""

from __future__ import annotations

from typing import Any

from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig
from engine.models.causal.layout import names, targets
from engine.models.causal.reading import flag, read_causal

MASK, THETA = 100, 1_000_000.0  # if the file has no mask_token_id or rope_theta


def read_config(raw: dict[str, Any]) -> CausalConfig:
    if flag(raw, "attention_bias", False):
        raise SafelightError("config.json: attention_bias is not supported in this family")
    return read_causal(raw, mask_token_id=MASK, rope_theta=THETA, has_window=True)


BODY = "encoder."
NAMES = names(BODY, "diffusion_head.", ignored=r"encoder\.layers\.\d+\.self_attn\.[kv]_scale")  # of a cache in 8 bits
TARGETS = targets(BODY)
