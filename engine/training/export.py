"""Writes a trained model in the layout of released checkpoints: ``python -m engine.training.export RUN FOLDER``."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from engine.config import GenerationConfig
from engine.files import write_json
from engine.models.diffusion_gemma.layout import released_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.diffusion_gemma.writing import config_dict, generation_dict
from engine.training.checkpointing import read_state
from engine.training.data.corpus import write_tokenizer
from engine.training.export_causal import export_causal
from engine.training.recipes.causal import CAUSAL_RECIPES
from engine.training.recipes.embedded import IMAGE_MARKS, RECIPES
from engine.weights.saving import save_whole


def write_checkpoint(network: DiffusionGemma, folder: Path, defaults: GenerationConfig) -> None:
    """Writes weights (bf16), configs, tokenizer and chat template into ``folder``; each file appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {released_name(n): p.detach().to(torch.bfloat16).contiguous() for n, p in network.named_parameters()}
    save_whole(folder / "model.safetensors", tensors, {"format": "pt"})
    write_json(folder / "config.json", config_dict(network.config))
    ends = [1, 8]  # <eos> and <turn|>
    write_json(folder / "generation_config.json", generation_dict(defaults, ends))
    write_tokenizer(folder, () if network.config.vision is None else IMAGE_MARKS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("out", type=Path, help="folder of the checkpoint")
    args = parser.parse_args()
    tensors, facts = read_state(args.run)
    if facts["recipe"] in CAUSAL_RECIPES:
        export_causal(tensors, CAUSAL_RECIPES[facts["recipe"]], args.out)
        return
    recipe = RECIPES[facts["recipe"]]
    network = DiffusionGemma(recipe.model_config())
    averaged = {k.removeprefix("average."): v for k, v in tensors.items() if k.startswith("average.")}
    network.load_state_dict({name: averaged[name] for name in network.state_dict()})  # a probe is not exported
    write_checkpoint(network, args.out, GenerationConfig(max_new_tokens=recipe.max_new_tokens))


if __name__ == "__main__":
    main()
