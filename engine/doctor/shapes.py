"""The two shapes that kernels are checked at: the real model's on a GPU, a tiny one in the interpreter."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import catalog
from engine.checks.operands import normal
from engine.config import LayerConfig, ModelConfig
from engine.models.registry import config_in

REAL = "26b-a4b"


def real() -> ModelConfig:
    """Returns the config of DiffusionGemma 26B-A4B."""
    return config_in(catalog.shape(REAL).folder)


def tiny() -> ModelConfig:
    """Returns a small config with a sliding and a full layer, fit for an interpreter; all of it can be packed."""
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
        vision=None,  # it has no kernels of its own
    )


@dataclass(frozen=True)
class CheckShape:
    """The model shape, device, type and contexts that the kernels are checked with."""

    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    contexts: tuple[int, ...]  # tokens before the canvas, for attention

    @property
    def canvas(self) -> int:
        return self.config.canvas_length

    def normal(self, *shape: int, seed: int, scale: float = 1.0) -> Tensor:
        return normal(*shape, device=self.device, dtype=self.dtype, seed=seed, scale=scale)

    def kinds(self) -> list[LayerConfig]:
        """Returns the layers' kinds, each once."""
        return list(dict.fromkeys(self.config.layers))


def kind(layer: LayerConfig) -> str:
    return "sliding" if layer.is_sliding else "full"
