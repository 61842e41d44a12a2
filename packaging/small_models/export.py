"""Writes a trained model in the layout of released checkpoints: the command ``export``.

The tensors of WeDLM are a Qwen3's. A Nemotron's are under ``encoder``, and its draft is a LoRA folder of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import catalog
from engine.adapters.draft import TARGETS
from engine.adapters.lora import new_adapters
from engine.adapters.peft_files import save_adapter
from engine.config import GenerationConfig
from engine.files import write_json
from engine.fingerprint import fingerprint
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.models.diffusion_gemma.config import TARGETS as LAYERS
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.registry import FAMILIES
from engine.store_files import DRAFT_FOLDER
from engine.weights.safetensors import save_whole
from small_models.causal_recipes import CAUSAL_RECIPES, CausalRecipe
from small_models.causal_trainer import BASE, add_draft
from small_models.checkpointing import read_state, under
from small_models.recipes import RECIPES, Recipe
from small_models.tokenizer import EOS, PAD, write_tokenizer
from small_models.writing import ENDS, write_checkpoint


def causal_dict(config: CausalConfig, model_type: str) -> dict[str, Any]:
    """Returns the content of ``config.json`` for a family."""
    layer = config.layers[0]
    shared = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": len(config.layers),
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": layer.num_key_value_heads,
        "head_dim": layer.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "block_size": config.canvas_length,
        "mask_token_id": config.mask_token_id,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "dtype": "bfloat16",
    }
    if model_type == "wedlm":
        own = {"architectures": ["WeDLMForDiffusionLM"], "model_type": "wedlm", "qk_norm": True}
        return own | shared | {"rope_theta": layer.rope_theta, "rope_scaling": None, "use_sliding_window": False}
    own = {"architectures": ["NemotronLabsDiffusionModel"], "model_type": "nemotron_labs_diffusion"}
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": layer.rope_theta}
    # no scaling of queries by their position, which transformers' Ministral needs to be set
    rope |= {"llama_4_scaling_beta": 0.0, "original_max_position_embeddings": config.max_position_embeddings}
    return own | shared | {"rope_parameters": rope, "mlp_bias": False, "dlm_paradigm": "bidirectional"}


def export_causal(tensors: Mapping[str, Tensor], recipe: CausalRecipe, folder: Path) -> None:
    """Writes the averaged weights of a run's checkpoint, with configs, tokenizer and chat template, into ``folder``.

    A draft's run is written together with the model that it was trained on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    average, is_draft = under("average.", tensors), recipe.objective == "draft"
    base = under(BASE, tensors) if is_draft else average
    network = CausalNetwork(recipe.model_config())
    network.load_state_dict(base)
    names = FAMILIES[recipe.model_type].names  # the head is the token table
    weights = network.state_dict().items()
    released = {names.released(name): tensor.to(torch.bfloat16).contiguous() for name, tensor in weights}
    save_whole(folder / "model.safetensors", released, {"format": "pt"})
    write_json(folder / "config.json", causal_dict(network.config, recipe.model_type))
    settings: dict[str, Any] = {"bos_token_id": network.config.bos_token_id, "eos_token_id": ENDS, "pad_token_id": PAD}
    settings |= {"max_new_tokens": recipe.max_new_tokens, "do_sample": False}
    write_json(folder / "generation_config.json", settings)
    write_tokenizer(folder)
    if is_draft:
        drafts = add_draft(network, recipe.rank, torch.Generator())
        for path, draft in drafts.items():
            for name, param in draft.named_parameters():
                param.data.copy_(average[f"{path}.{name}"])
        save_adapter(folder / DRAFT_FOLDER, drafts, TARGETS, base_name="", base_fingerprint="")


def export_adapter(tensors: Mapping[str, Tensor], recipe: Recipe, folder: Path) -> None:
    """Writes the averaged matrices of an adapter's run in PEFT's format, for the base model that is installed."""
    network = DiffusionGemma(recipe.model_config())
    adapters = new_adapters(network, LAYERS, recipe.rank, 0, torch.Generator())
    for path, adapter in adapters.items():
        for name, param in adapter.named_parameters():
            param.data.copy_(tensors[f"average.{path}.{name}"])
    save_adapter(folder, adapters, LAYERS, catalog.BASE, fingerprint(catalog.resolve(catalog.BASE)))


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("out", type=Path, help="folder of the checkpoint")


def run(args: argparse.Namespace) -> None:
    tensors, facts = read_state(args.run)
    if facts["recipe"] in CAUSAL_RECIPES:
        export_causal(tensors, CAUSAL_RECIPES[facts["recipe"]], args.out)
        return
    recipe = RECIPES[facts["recipe"]]
    if recipe.rank:
        export_adapter(tensors, recipe, args.out)
        return
    network = DiffusionGemma(recipe.model_config())
    averaged = under("average.", tensors)
    network.load_state_dict({name: averaged[name] for name in network.state_dict()})  # a probe is not exported
    defaults = GenerationConfig(max_new_tokens=recipe.max_new_tokens)
    write_checkpoint(network, args.out, defaults)
