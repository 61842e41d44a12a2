"""Writes a small DiffusionGemma in the layout of released checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from engine.config import GenerationConfig
from engine.files import write_json
from engine.models.diffusion_gemma.config import config_dict, generation_dict, released_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.weights.safetensors import save_whole
from small_models.recipes import IMAGE_MARKS, TEXT_TOKENS, TOOL_MARKS
from small_models.tokenizer import CALLING_TEMPLATE, EOS, SEEING_TEMPLATE, write_tokenizer

ENDS = [EOS, 8]  # <eos> and <turn|>


def write_checkpoint(network: DiffusionGemma, folder: Path, defaults: GenerationConfig) -> None:
    """Writes weights (bf16), configs, tokenizer and chat template into ``folder``; each file appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {released_name(n): p.detach().to(torch.bfloat16).contiguous() for n, p in network.named_parameters()}
    save_whole(folder / "model.safetensors", tensors, {"format": "pt"})
    write_json(folder / "config.json", config_dict(network.config))
    write_json(folder / "generation_config.json", generation_dict(defaults, ENDS))
    if network.config.vision is not None:
        write_tokenizer(folder, IMAGE_MARKS, SEEING_TEMPLATE)
    elif network.config.vocab_size == TEXT_TOKENS + len(TOOL_MARKS):
        write_tokenizer(folder, TOOL_MARKS, CALLING_TEMPLATE)
    else:
        write_tokenizer(folder)
