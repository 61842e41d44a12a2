"""Reads the ``config.json`` of RND1. Knows no tensors.

RND1 is a Qwen3 with experts that reads whole texts in both directions. As in the autoregressive model that it was made
of, a row predicts the token behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.config import ExpertRouting
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.experts import with_experts
from engine.models.causal.reading import flag
from engine.models.qwen.config import read_qwen3

MASK, CANVAS = 151669, 256
ABSENT = ("rope_scaling", "sliding_window")  # fields for which its authors' class writes false


def read_config(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field, or layers without experts.
    """
    for name, only in (("mlp_only_layers", []), ("decoder_sparse_step", 1)):
        if raw.get(name) not in (None, only):
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported, only {only}")
    raw = raw | {name: raw.get(name) or None for name in ABSENT}
    config = replace(
        read_qwen3(raw, mask=MASK), canvas_length=CANVAS, shifts_masks=True, mask_schedule="ceil", reads_whole=True
    )
    return with_experts(config, raw, ExpertRouting(is_normed=flag(raw, "norm_topk_prob", True)))
