"""The two shapes that are checked: the real model's on a GPU, a tiny one in the interpreter."""

from __future__ import annotations

import dataclasses

from engine import catalog
from engine.config import ModelConfig
from engine.files import read_json

REAL = "26b-a4b"


def real() -> ModelConfig:
    """DiffusionGemma 26B-A4B."""
    return ModelConfig.from_dict(read_json(catalog.resolve(REAL, shapes=True) / "config.json"))


def tiny() -> ModelConfig:
    """The same with a sliding and a full layer, small enough for an interpreter; all of it can be packed."""
    model = real()
    sliding, full = (next(layer for layer in model.layers if layer.is_sliding is wanted) for wanted in (True, False))
    return dataclasses.replace(
        model,
        hidden_size=128,
        intermediate_size=64,
        moe_intermediate_size=64,
        num_experts=6,
        top_k_experts=2,
        num_attention_heads=4,
        layers=(
            dataclasses.replace(sliding, head_dim=16, num_key_value_heads=2),
            dataclasses.replace(full, head_dim=32, num_key_value_heads=1),
        ),
        sliding_window=16,
        vocab_size=520,
        canvas_length=12,
    )
