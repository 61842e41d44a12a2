"""Reads the ``config.json`` of families that are one network, each in a few lines. Knows no tensors.

- Qwen2 and Fast-dLLM v2 have biases in attention; Qwen3 and SDAR norm queries and keys; WeDLM is one or the other, by
  its ``attention_bias``, as in its engine (Tencent/WeDLM), which has the same mask for files without one.
- In SmolLM3, a Llama, every fourth layer does not rotate queries and keys, and may look back over a window. The first
  Mistral looks back over one in every layer, Ministral in those that its file names. Nemotron-Labs-Diffusion is based
  on Ministral 3.
- Dream, Dream-Coder and DiffuCoder are Qwen2.5 networks that see in both directions; RND1 is a Qwen3 with experts that
  does. As in the autoregression that they began with, a row predicts the token behind it.
- ZHZisZZ/dllm turned a Qwen3, a Qwen2 and a Llama from autoregression to diffusion. Their files do not say whether they
  were trained on whole texts (MDLM) or on blocks (BD3-LM), which begin behind the prompt. The mask is a token that was
  added behind those of the tokenizer.
- Gemma 3 is text alone, or the text part of a model that sees. Sliding layers have their own rotation base; stretching
  applies to the full ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.config import MAX_LAYERS, ExpertRouting
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.layout import names, targets
from engine.models.causal.reading import FULL, SLIDING, flag, read_causal, read_kinds, with_experts

WEDLM_MASK, SDAR_MASK = 151665, 151669
FAST_DLLM_MASK, FAST_DLLM_BLOCK = 151665, 32
THETA, WEDLM_THETA = 10_000.0, 1_000_000.0  # transformers', and WeDLM's engine's, for files without rope_theta


def read_qwen2(raw: dict[str, Any], mask: int | None = None) -> CausalConfig:
    return read_causal(raw, rope_theta=THETA, mask_token_id=mask, attention_bias=True)


def read_qwen3(raw: dict[str, Any], mask: int | None = None) -> CausalConfig:
    bias = flag(raw, "attention_bias", False)
    return read_causal(
        raw, rope_theta=THETA, mask_token_id=mask, attention_bias=bias, output_bias=bias, query_key_norm=True
    )


def read_wedlm(raw: dict[str, Any]) -> CausalConfig:
    bias = flag(raw, "attention_bias", True)
    return read_causal(
        raw, rope_theta=WEDLM_THETA, mask_token_id=WEDLM_MASK, attention_bias=bias, query_key_norm=not bias
    )


def read_sdar(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config; see ``read_causal``.

    Raises:
        SafelightError: there is no ``block_size``: text in other blocks than those of its training comes out wrong.
    """
    if raw.get("block_size") is None:
        raise SafelightError(
            "config.json: block_size is missing, the tokens of a block that this model was trained with; write it "
            "there: 4 for SDAR-1.7B-Chat, -4B-Chat and -8B-Chat, and for others what their name ends with: 8 for -b8, "
            "16 for -b16, 32 for -b32, 64 for -b64"
        )
    return read_qwen3(raw, mask=SDAR_MASK)


def read_fast_dllm(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config of Fast-dLLM v2, whose files call the length of a block ``bd_size``; see ``read_causal``."""
    block = FAST_DLLM_BLOCK if raw.get("bd_size") is None else raw["bd_size"]
    shape = read_causal(raw, rope_theta=THETA, canvas_length=block, mask_token_id=FAST_DLLM_MASK, attention_bias=True)
    return replace(shape, shifts_masks=True)


SMOLLM3_THETA = 2_000_000.0
WITHOUT_ROPE = 4  # one layer in so many of SmolLM3, if the file does not say


def read_llama(raw: dict[str, Any]) -> CausalConfig:
    bias = flag(raw, "attention_bias", False)
    return read_causal(raw, rope_theta=THETA, attention_bias=bias, output_bias=bias)


def read_smollm3(raw: dict[str, Any]) -> CausalConfig:
    bias, turns = flag(raw, "attention_bias", False), _turns(raw)
    has_window = flag(raw, "use_sliding_window", False) and raw.get("sliding_window") is not None
    kinds = read_kinds(raw, lambda index: SLIDING if has_window and not turns[index] else FULL)
    return read_causal(
        raw,
        rope_theta=SMOLLM3_THETA,
        attention_bias=bias,
        output_bias=bias,
        tied=True,
        kinds=kinds,
        turns=turns,
    )


def _turns(raw: dict[str, Any]) -> list[bool]:
    """Reads which layers rotate: ``no_rope_layers`` has 1 for those, and 0 for the others."""
    count: Any = raw.get("num_hidden_layers")
    listed = raw.get("no_rope_layers")
    check_whole("config.json: num_hidden_layers", count, 1, MAX_LAYERS)
    if listed is None:
        every = raw.get("no_rope_layer_interval", WITHOUT_ROPE)
        check_whole("config.json: no_rope_layer_interval", every, 1, MAX_LAYERS)
        return [(index + 1) % every != 0 for index in range(count)]
    if not isinstance(listed, list) or len(listed) < count or any(each not in (0, 1) for each in listed):
        raise SafelightError(f"config.json: no_rope_layers must have 0 or 1 for each of {count} layers")
    return [each == 1 for each in listed[:count]]


MINISTRAL3_THETA = 1_000_000.0
WINDOW = 4096  # transformers', for files without sliding_window; those that have null there have none


def read_mistral(raw: dict[str, Any]) -> CausalConfig:
    return _read(raw, THETA, WINDOW)


def read_ministral3(raw: dict[str, Any]) -> CausalConfig:
    return _read(raw, MINISTRAL3_THETA, None)


def read_mistral3(raw: dict[str, Any]) -> CausalConfig:
    """Reads the ``text_config`` of a model that sees; see ``read_causal``."""
    text = raw["text_config"]
    readers = {"mistral": read_mistral, "ministral3": read_ministral3}
    model_type = text.get("model_type", "mistral")
    reader = readers.get(model_type) if isinstance(model_type, str) else None
    if reader is None:
        raise SafelightError(
            f"config.json: text_config has the model_type {quoted(model_type)}; 'mistral' and 'ministral3' are "
            "supported"
        )
    tied = raw.get("tie_word_embeddings")  # of the whole model; it goes before that of its text
    return reader(text if tied is None else {**text, "tie_word_embeddings": tied})


def _read(raw: dict[str, Any], theta: float, window: int | None) -> CausalConfig:
    window = raw.get("sliding_window", window)
    kinds = read_kinds(raw, lambda _: FULL if window is None else SLIDING)
    return read_causal({**raw, "sliding_window": window}, rope_theta=theta, kinds=kinds)


def read_nemotron(raw: dict[str, Any]) -> CausalConfig:
    if flag(raw, "attention_bias", False):
        raise SafelightError("config.json: attention_bias is not supported in this family")
    return read_causal(raw, mask_token_id=100, rope_theta=1_000_000.0, has_window=True)


NEMOTRON = (
    names(
        "encoder.", "diffusion_head.", ignored=r"encoder\.layers\.\d+\.self_attn\.[kv]_scale"
    ),  # of a cache in 8 bits
    targets("encoder."),
)


DREAM_MASK = 151666
DREAM_BLOCK = 512  # its authors write so many tokens as one block


def read_dream(raw: dict[str, Any]) -> CausalConfig:
    read = read_causal(raw, rope_theta=THETA, canvas_length=DREAM_BLOCK, mask_token_id=DREAM_MASK, attention_bias=True)
    return replace(read, shifts_masks=True, mask_schedule="floor", reads_whole=True)


QWEN3_MASK, QWEN2_MASK = 151669, 151665  # if neither config.json nor the tokenizer has it


def read_dllm(raw: dict[str, Any], like: Callable[[dict[str, Any]], CausalConfig]) -> CausalConfig:
    """Reads the config of a model that was turned to diffusion, ``like`` that of the family that it was of."""
    return replace(like(raw), blocks_follow_prompt=True, reads_whole=True, mask_schedule="round")


RND1_MASK, RND1_CANVAS = 151669, 256
_ABSENT = ("rope_scaling", "sliding_window")  # fields for which its authors' class writes false


def read_rnd1(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field, or layers without experts.
    """
    for name, only in (("mlp_only_layers", []), ("decoder_sparse_step", 1)):
        if raw.get(name) not in (None, only):
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported, only {only}")
    raw = raw | {name: raw.get(name) or None for name in _ABSENT}
    config = replace(
        read_qwen3(raw, mask=RND1_MASK),
        canvas_length=RND1_CANVAS,
        shifts_masks=True,
        mask_schedule="ceil",
        reads_whole=True,
    )
    return with_experts(config, raw, ExpertRouting(is_normed=flag(raw, "norm_topk_prob", True)))


GEMMA_THETA, GEMMA_NEAR_THETA = 1_000_000.0, 10_000.0  # of full and of sliding layers, if the file has none
GEMMA_PATTERN = 6  # one layer in so many is full, if the file does not say
GEMMA_DEFAULTS = {  # transformers', for what published files leave out
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def read_gemma3(raw: dict[str, Any]) -> CausalConfig:
    """Reads the ``text_config`` of a model that sees; see ``read_causal``."""
    return read_gemma3_text(raw["text_config"])


def read_gemma3_text(raw: dict[str, Any]) -> CausalConfig:
    """Reads the config of a model of text; see ``read_causal``."""
    raw = GEMMA_DEFAULTS | {name: value for name, value in raw.items() if value is not None}
    for name in ("final_logit_softcapping", "attn_logit_softcapping"):
        if name in raw:
            raise SafelightError(f"config.json: {name} is not supported in this family")
    if raw.get("use_bidirectional_attention"):
        raise SafelightError("config.json: use_bidirectional_attention is not supported, only causal models of text")
    if not flag(raw, "tie_word_embeddings", True):
        raise SafelightError("config.json: tie_word_embeddings must be true")
    full, near = _gemma_ropes(raw)
    bias = flag(raw, "attention_bias", False)
    shared = read_causal(
        {**raw, "rope_parameters": full},
        rope_theta=GEMMA_THETA,
        attention_bias=bias,
        output_bias=bias,
        query_key_norm=True,
        tied=True,
        kinds=read_kinds(raw, lambda index: SLIDING if (index + 1) % _gemma_pattern(raw) else FULL),
        near_theta=near.get("rope_theta", GEMMA_NEAR_THETA),
        activation="gelu_pytorch_tanh",
    )
    return replace(
        shared,
        query_divisor=raw["query_pre_attn_scalar"],
        scales_embeddings=True,
        norms_add_one=True,
        norms_results=True,
    )


def _gemma_pattern(raw: dict[str, Any]) -> int:
    pattern: int = raw.get("sliding_window_pattern", GEMMA_PATTERN)
    check_whole("config.json: sliding_window_pattern", pattern, 1, MAX_LAYERS)
    return pattern


def _gemma_ropes(raw: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the rotation of full and of sliding layers, in the form that ``read_causal`` takes."""
    ropes = raw.get("rope_parameters")
    if ropes is None:  # files before transformers 5
        ropes = {
            FULL: {"rope_theta": raw.get("rope_theta", GEMMA_THETA), **raw.get("rope_scaling", {})},
            SLIDING: {"rope_theta": raw.get("rope_local_base_freq", GEMMA_NEAR_THETA)},
        }
    full, near = (ropes.get(kind) or {} for kind in (FULL, SLIDING))
    if near.get("rope_type", "default") != "default":
        raise SafelightError(
            f"config.json: rope_type {quoted(near['rope_type'])} of sliding layers is not supported, only 'default'"
        )
    return full, near
