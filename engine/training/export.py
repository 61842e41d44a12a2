"""Writes a trained model as released checkpoints are laid out: ``python -m engine.training.export RUN FOLDER``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import torch

from engine.config import IMAGE_TOKENS, GenerationConfig, ModelConfig, VisionConfig
from engine.files import write_json
from engine.models.diffusion_gemma.layout import released_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.training.checkpointing import read_state
from engine.training.data.corpus import write_tokenizer
from engine.training.export_causal import export_causal
from engine.training.recipes.causal import CAUSAL_RECIPES
from engine.training.recipes.embedded import IMAGE_MARKS, RECIPES
from engine.weights.saving import save_whole

MARK_NAMES = {"boi": "begin", "image": "image", "eoi": "end"}  # config.json's names and ours


def config_dict(config: ModelConfig) -> dict[str, Any]:
    """``config.json`` in the layout that this engine and transformers read."""
    vision = {} if config.vision is None else vision_dict(config.vision)
    sliding = next(layer for layer in config.layers if layer.is_sliding)
    full = next(layer for layer in config.layers if not layer.is_sliding)
    return {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "model_type": "diffusion_gemma",
        "canvas_length": config.canvas_length,
        "dtype": "bfloat16",
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "diffusion_gemma_text",
            "vocab_size": config.vocab_size,
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": len(config.layers),
            "num_attention_heads": config.num_attention_heads,
            "num_key_value_heads": sliding.num_key_value_heads,
            "num_global_key_value_heads": full.num_key_value_heads,
            "head_dim": sliding.head_dim,
            "global_head_dim": full.head_dim,
            "hidden_activation": "gelu_pytorch_tanh",
            "layer_types": [layer.kind for layer in config.layers],
            "sliding_window": config.sliding_window,
            "num_experts": config.num_experts,
            "top_k_experts": config.top_k_experts,
            "moe_intermediate_size": config.moe_intermediate_size,
            "max_position_embeddings": config.max_position_embeddings,
            "rms_norm_eps": config.rms_norm_eps,
            "final_logit_softcapping": config.final_logit_softcapping,
            "use_bidirectional_attention": "vision",
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": sliding.rope_theta},
                "full_attention": {
                    "rope_type": "proportional",
                    "partial_rotary_factor": full.partial_rotary_factor,
                    "rope_theta": full.rope_theta,
                },
            },
            "bos_token_id": 2,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "tie_word_embeddings": True,
        },
        **vision,
    }


def vision_dict(vision: VisionConfig) -> dict[str, Any]:
    """What ``config.json`` says of images; an image takes as few tokens as can be asked for, as in training."""
    shape = dataclasses.asdict(vision)
    tokens = {f"{short}_token_id": shape.pop(f"{name}_token_id") for short, name in MARK_NAMES.items()}
    theta = shape.pop("rope_theta")
    shape |= {
        "model_type": "gemma4_vision",
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {"rope_type": "axial", "rope_theta": theta},
    }
    return {**tokens, "vision_soft_tokens_per_image": IMAGE_TOKENS[0], "vision_config": shape}


def generation_dict(defaults: GenerationConfig, eos_token_ids: list[int]) -> dict[str, Any]:
    """``generation_config.json``."""
    return {
        "max_new_tokens": defaults.max_new_tokens,
        "max_denoising_steps": defaults.max_denoising_steps,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": defaults.entropy_bound},
        "t_max": defaults.t_max,
        "t_min": defaults.t_min,
        "stability_threshold": defaults.stability_threshold,
        "confidence_threshold": defaults.confidence_threshold,
        "eos_token_id": eos_token_ids,
        "bos_token_id": 2,
        "pad_token_id": defaults.pad_token_id,
    }


def write_checkpoint(network: DiffusionGemma, folder: Path, defaults: GenerationConfig) -> None:
    """Write weights (bf16), configs, tokenizer and chat template into ``folder``; each file appears whole."""
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
    network.load_state_dict({name: averaged[name] for name in network.state_dict()})  # a probe is left behind
    write_checkpoint(network, args.out, GenerationConfig(max_new_tokens=recipe.max_new_tokens))


if __name__ == "__main__":
    main()
