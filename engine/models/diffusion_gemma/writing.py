"""Writes a model's shape and its sampler's defaults in the form of released checkpoints."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.config import IMAGE_TOKENS, GenerationConfig, ModelConfig, VisionConfig

MARK_NAMES = {"boi": "begin", "image": "image", "eoi": "end"}  # config.json's names and ours


def config_dict(config: ModelConfig) -> dict[str, Any]:
    """Returns ``config.json`` in the layout that this engine and transformers read."""
    vision = {} if config.vision is None else vision_dict(config.vision)
    sliding = next(layer for layer in config.layers if layer.is_sliding)
    full = next(layer for layer in config.layers if not layer.is_sliding)
    return {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "model_type": "diffusion_gemma",
        "canvas_length": config.canvas_length,
        **({"gap_padding": True} if config.pads_gaps else {}),
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
            "bos_token_id": config.bos_token_id,
            "eos_token_id": 1,
            "pad_token_id": config.pad_token_id,
            "tie_word_embeddings": True,
        },
        **vision,
    }


def vision_dict(vision: VisionConfig) -> dict[str, Any]:
    """Returns the image part of ``config.json``; an image takes the smallest budget, as in training."""
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
    """Returns ``generation_config.json``."""
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
