"""Tiny random models of ours and their checkpoints, without transformers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import GenerationConfig, ModelConfig
from engine.config import LayerConfig, VisionConfig
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.small import write_checkpoint

VOCABULARY, CANVAS, WINDOW = 128, 10, 8
SLIDING = LayerConfig("sliding_attention", 8, 2, 10_000.0, 1.0)
FULL = LayerConfig("full_attention", 16, 1, 1_000_000.0, 0.25)
CONFIG = ModelConfig(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=4,
    layers=(SLIDING, SLIDING, FULL),
    sliding_window=WINDOW,
    num_experts=4,
    top_k_experts=2,
    moe_intermediate_size=16,
    canvas_length=CANVAS,
    max_position_embeddings=4096,
)

VISION = VisionConfig(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=8,
    patch_size=2,
    pooling_kernel_size=2,
    position_embedding_size=2240,
    begin_token_id=120,
    image_token_id=121,
    end_token_id=122,
)  # of a model that sees; pixels in tiles of four by four


def network(seed: int = 0, **changes: Any) -> DiffusionGemma:
    """A random network in fp32; ``changes`` replace fields of ``CONFIG``."""
    made = DiffusionGemma(dataclasses.replace(CONFIG, **changes)).requires_grad_(False).eval()
    draws = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=draws)
        else:
            parameter.uniform_(0.6, 1.4, generator=draws)
    return made


def checkpoint(folder: Path, **changes: Any) -> Path:
    """Write a random network as a checkpoint."""
    write_checkpoint(network(**changes), folder, GenerationConfig(max_new_tokens=30, max_denoising_steps=4))
    return folder


def change_weights(folder: Path, change: dict[str, Tensor | None]) -> None:
    """Set tensors of a one-file checkpoint; ``None`` removes one."""
    weights = {**load_file(folder / "model.safetensors"), **change}
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors")


def tokens(count: int, seed: int = 0) -> Tensor:
    """Random token ids (count,)."""
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


class ByProgram:
    """A model whose steps are programs."""

    has_step_program = True

    def __init__(self, made: DiffusionGemma) -> None:
        self.network = made
        self.derived: dict[type, object] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)


def all_but(*left: int, of: int = VOCABULARY) -> tuple[int, ...]:
    """Every token of a vocabulary but these, to be banned."""
    return tuple(sorted(set(range(of)) - set(left)))
