"""Reads and writes DiffusionGemma's ``config.json``, writes its sampler's defaults, and names its tensors.

In transformers' DiffusionGemma the two modes are two stacks of modules that share their weights: ``model.encoder.
language_model`` reads text, ``model.decoder`` denoises. Their weights are stored once, under the decoder's names,
except for the layers' scalars, which each mode has separately. PEFT wraps each module by its own name.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from engine.adapters.lora import Targets
from engine.config import IMAGE_TOKENS, MAX_LAYERS, GenerationConfig, LayerConfig, ModelConfig, VisionConfig
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.weights.layout import Names


def read_config(raw: dict[str, Any]) -> ModelConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field or a value this engine does not implement.
    """
    text = raw["text_config"]

    def need(name: str) -> Any:
        if text.get(name) is None:
            raise SafelightError(f"config.json: text_config.{name} is missing")
        return text[name]

    if text.get("use_bidirectional_attention") == "all":
        raise SafelightError("config.json: use_bidirectional_attention 'all' is not supported, only causal prefill")
    if text.get("attention_bias"):
        raise SafelightError("config.json: attention_bias is not supported")
    if text.get("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
        raise SafelightError(f"config.json: hidden_activation {quoted(text['hidden_activation'])} is not supported")
    if not raw.get("tie_word_embeddings", True):
        raise SafelightError("config.json: tie_word_embeddings must be true")

    return ModelConfig(
        vocab_size=need("vocab_size"),
        hidden_size=need("hidden_size"),
        intermediate_size=need("intermediate_size"),
        num_attention_heads=need("num_attention_heads"),
        layers=_read_layers(text, need),
        sliding_window=need("sliding_window"),
        num_experts=need("num_experts"),
        top_k_experts=need("top_k_experts"),
        moe_intermediate_size=need("moe_intermediate_size"),
        canvas_length=raw.get("canvas_length") or 256,
        pads_gaps=raw.get("gap_padding") is True,  # of our own small models
        max_position_embeddings=need("max_position_embeddings"),
        rms_norm_eps=text.get("rms_norm_eps", 1e-6),
        final_logit_softcapping=text.get("final_logit_softcapping") or 30.0,
        bos_token_id=_first(text.get("bos_token_id"), 2),
        pad_token_id=_first(text.get("pad_token_id"), 0),
        vision=read_vision(raw, need("vocab_size")),
    )


def _first(value: Any, default: int) -> Any:
    if isinstance(value, list):
        value = value[0] if value else None
    return default if value is None else value


def _read_layers(text: dict[str, Any], need: Any) -> tuple[LayerConfig, ...]:
    """Returns the layers' configs, from ``per_layer_config`` or the flat ``global_*`` fields of released files."""
    count = need("num_hidden_layers")
    check_whole("config.json: num_hidden_layers", count, 1, MAX_LAYERS)
    kinds = text.get("layer_types") or [
        "full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(count)
    ]
    if len(kinds) != count:
        raise SafelightError(f"config.json: {len(kinds)} layer_types for {count} layers")
    overrides = text.get("per_layer_config")
    ropes = text.get("rope_parameters") or {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    }
    layers = []
    for index, kind in enumerate(kinds):
        if kind not in ("sliding_attention", "full_attention"):
            raise SafelightError(f"config.json: layer {index} has the unknown kind {quoted(kind)}")
        if overrides is not None:
            own = overrides.get(str(index), {})
        elif kind == "full_attention":
            own = {
                "head_dim": text.get("global_head_dim") or 512,
                "num_key_value_heads": text.get("num_global_key_value_heads") or need("num_key_value_heads"),
            }
        else:
            own = {}
        rope = ropes[kind]
        expected = "proportional" if kind == "full_attention" else "default"
        if rope.get("rope_type") not in ("default", "proportional") or rope.get("factor", 1.0) != 1.0:
            raise SafelightError(
                f"config.json: {kind} has rope_type {quoted(rope.get('rope_type'))}; expected {expected!r}"
            )
        layers.append(
            LayerConfig(
                kind=kind,
                head_dim=own.get("head_dim") or need("head_dim"),
                num_key_value_heads=own.get("num_key_value_heads") or need("num_key_value_heads"),
                rope_theta=rope["rope_theta"],
                partial_rotary_factor=rope.get("partial_rotary_factor", 1.0),
            )
        )
    return tuple(layers)


def read_vision(raw: dict[str, Any], vocab_size: int) -> VisionConfig | None:
    """Returns the shape of the tower that a parsed ``config.json`` describes.

    Returns:
        None if there is none, if its kind is not implemented, or if the tokens of images are not within the model's
        ``vocab_size``. The model then reads only text.

    Raises:
        SafelightError: a field is missing or of no use.
    """
    vision = raw.get("vision_config")
    if vision is None:
        return None
    rope = vision.get("rope_parameters") or {}
    known = (
        vision.get("model_type") == "gemma4_vision"
        and vision.get("hidden_activation", "gelu_pytorch_tanh") == "gelu_pytorch_tanh"
        and rope.get("rope_type", "axial") in ("axial", "default")
        and not vision.get("use_clipped_linears")  # the bounds of such layers would be additional tensors
        and not vision.get("attention_bias")
    )
    if not known:
        return None

    def need(name: str, values: dict[str, Any] = vision, default: Any = None) -> Any:
        value = values.get(name)
        value = default if value is None else value
        if value is None:
            raise SafelightError(f"config.json: vision_config.{name} is missing")
        return value

    heads = need("num_attention_heads")
    tower = VisionConfig(
        hidden_size=need("hidden_size"),
        intermediate_size=need("intermediate_size"),
        num_hidden_layers=need("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=need("num_key_value_heads", default=heads),
        head_dim=need("head_dim"),
        patch_size=need("patch_size", default=16),
        pooling_kernel_size=need("pooling_kernel_size", default=3),
        position_embedding_size=need("position_embedding_size", default=10_240),
        begin_token_id=need("boi_token_id", raw, 255_999),
        image_token_id=need("image_token_id", raw, 258_880),
        end_token_id=need("eoi_token_id", raw, 258_882),
        rope_theta=need("rope_theta", rope, 100.0),
        rms_norm_eps=need("rms_norm_eps", default=1e-6),
        standardize=need("standardize", default=False),
    )
    return tower if max(tower.begin_token_id, tower.image_token_id, tower.end_token_id) < vocab_size else None


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


DECODER = "model.decoder."
ENCODER = "model.encoder.language_model."
TOWER = "model.encoder.vision_tower."
PROJECTOR = "model.encoder.embed_vision."
_INNER = re.compile(r"(layers\.\d+\.(?:self_attn|mlp)\.\w+_proj)\.(.+)")


def released_name(parameter: str) -> str:
    if parameter.startswith("vision."):
        return _vision_name(parameter.removeprefix("vision."))
    if parameter.endswith(".causal_layer_scalar"):
        return ENCODER + parameter.replace("causal_layer_scalar", "layer_scalar")
    return DECODER + parameter


def _vision_name(parameter: str) -> str:
    if parameter.startswith("projection."):
        return PROJECTOR + parameter.replace("projection", "embedding_projection")
    if parameter.startswith("layers."):
        return TOWER + "encoder." + _INNER.sub(r"\1.linear.\2", parameter)
    return TOWER + parameter


NAMES = Names(
    released_name,
    skipped=(TOWER, PROJECTOR),
    # The head, which is the table, packed or not; an unused tensor of the projector.
    ignored=re.compile(
        r"lm_head\.(weight|weight_packed|weight_scale|weight_shape|weight_scale_2|weight_global_scale|qweight|scales|qzeros)"
        r"|model\.encoder\.embed_vision\.embedding\.weight"
    ),
)
TARGETS = Targets(
    re.compile(
        r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)|self_conditioning\.(gate|up|down)_proj"
    ),
    prefixes=((ENCODER, "causal"), (DECODER, "denoise")),
    canvas_only="self_conditioning.",
)
