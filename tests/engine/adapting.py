"""Adapters that were not trained but do change something."""

from __future__ import annotations

import torch

from engine.adapters.lora import LayerAdapter, new_adapters
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.diffusion_gemma.network import DiffusionGemma

SCALING = 1.5


def random_adapters(
    network: DiffusionGemma, seed: int = 0, causal: int = 3, denoise: int = 5
) -> dict[str, LayerAdapter]:
    """Adapters of these ranks for all targets."""
    draws = torch.Generator().manual_seed(seed)
    made = new_adapters(network, TARGETS, denoise, causal, draws, SCALING)
    with torch.no_grad():
        for adapter in made.values():
            for name, parameter in adapter.named_parameters():
                if name.endswith("up"):
                    parameter.normal_(std=0.3 * parameter.shape[1] ** -0.5, generator=draws)
    return {path: adapter.requires_grad_(False) for path, adapter in made.items()}
