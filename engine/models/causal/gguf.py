"""Dense causal models as llama.cpp's converter writes them: the keys, and the names of the tensors.

If llama.cpp rotates pairs of neighbours, rows of queries and keys are stored in that order. Gemma's norms are stored
with the one that they add. There is no output head if it is the token table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from engine.config import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, LayerConfig
from engine.declared import check_real, check_whole
from engine.errors import SafelightError, quoted
from engine.layers.rope import inverse_frequencies, stretched_as_llama3
from engine.models.causal.llada import LIKE_LLAMA, WORDS
from engine.models.causal.reading import FULL, SLIDING
from engine.models.gguf_description import ROPE, TABLE, Describe, GGUFDescription, GGUFKeys, table_shape
from engine.weights.gguf.checkpoint import GGUFCheckpoint, Rewritten
from engine.weights.gguf.header import GGUFHeader
from engine.weights.layout import Names

ENDS = (  # tokens that llama.cpp, too, ends a text with, besides those that the file names
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
)
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""All of Llama 3's checkpoints have these values; a file has only the resulting divisors."""
GEMMA_PATTERN, GEMMA_NEAR_THETA = 6, 10_000.0  # llama.cpp's, if a file of Gemma 3 has none
GEMMA_27B = 62  # layers of the model whose queries are divided by the root of a number other than a head's size

_ENDS = {"embed_tokens.weight": TABLE, "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA = _PARTS | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_EXPERTS = _PARTS | {
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+?)(?:\.(weight|bias))?")


def tensor_name(parts: dict[str, str], parameter: str) -> str:
    """Returns the name in a file of one of our parameters."""
    match = _LAYER.fullmatch(parameter)
    return f"blk.{match[1]}.{parts[match[2]]}.{match[3] or 'weight'}" if match else _ENDS[parameter]


NAMES = Names(partial(tensor_name, _PARTS), (ROPE,))
GEMMA_NAMES = Names(partial(tensor_name, _GEMMA), (ROPE,))
EXPERT_NAMES = Names(partial(tensor_name, _EXPERTS), (ROPE,))


@dataclass(frozen=True)
class _Architecture:
    """Facts of one architecture's files.

    neighbours: True if rows of queries and keys are stored for a rotation of neighbours. more: function from the keys
    and the fields so far to further fields of ``config.json``. is_gemma: True if layers have four norms, stored with
    the one that they add. sees: True if some of its models see, by a part that is in another file. has_experts: True if
    its models have experts.
    """

    model_type: str
    class_name: str
    neighbours: bool = False
    more: Callable[[GGUFKeys, dict[str, Any]], dict[str, Any]] = lambda _keys, _shared: {}
    is_gemma: bool = False
    sees: bool = False
    has_experts: bool = False


def _describe(
    name: str, architecture: _Architecture, header: GGUFHeader, token_id: Callable[[str], int | None]
) -> GGUFDescription:
    keys = GGUFKeys(header, name)
    ends = [keys.token("eos"), keys.token("eot"), *map(token_id, ENDS)]
    ends = list(dict.fromkeys(end for end in ends if end is not None))
    named = {f"{ours}_token_id": keys.token(theirs) for ours, theirs in (("bos", "bos"), ("pad", "padding"))}
    shared = _shared(keys) | named | {"eos_token_id": ends}
    config = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "dtype": "bfloat16",
        **shared,
        **architecture.more(keys, shared),
    }
    heads = {"q_proj": shared["num_attention_heads"], "k_proj": shared["num_key_value_heads"]}
    return GGUFDescription(
        config,
        {"eos_token_id": ends} | {name: token for name, token in named.items() if token is not None},
        GEMMA_NAMES if architecture.is_gemma else EXPERT_NAMES if architecture.has_experts else NAMES,
        Rewritten(heads if architecture.neighbours else {}, architecture.is_gemma),
        ("text only: images need the original checkpoint",) if architecture.sees else (),
    )


def _shared(keys: GGUFKeys) -> dict[str, Any]:
    """Reads the shape, as fields of ``config.json`` that all architectures share."""
    vocabulary, width = table_shape(keys.header)
    hidden, heads = keys.need("embedding_length"), keys.need("attention.head_count")
    if hidden != width:
        raise SafelightError(f"has a token table of the width {width} for an embedding length of {quoted(hidden)}")
    check_whole(f"{keys.architecture}.attention.head_count", heads, 1, MAX_HEADS)
    size = keys.find("attention.key_length", hidden // heads)
    check_whole(f"{keys.architecture}.attention.key_length", size, 2, MAX_HEAD_DIM)
    for name in ("attention.value_length", "rope.dimension_count"):
        if keys.find(name, size) != size:
            raise SafelightError(f"has {keys.architecture}.{name} {quoted(keys.find(name))} for heads of {size}")
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": keys.need("feed_forward_length"),
        "num_hidden_layers": keys.need("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.find("attention.head_count_kv", heads),
        "head_dim": size,
        "max_position_embeddings": keys.need("context_length"),
        "rms_norm_eps": keys.need("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in keys.header.tensors,
        "rope_parameters": _rope(keys, size),
    }


def _rope(keys: GGUFKeys, size: int) -> dict[str, Any]:
    """Reads the rotation, as fields of ``config.json``."""
    theta, kind = keys.find("rope.freq_base", 10_000.0), keys.find("rope.scaling.type", "none")
    check_real(f"{keys.architecture}.rope.freq_base", theta, 1.0)
    for name in ("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"):
        if keys.find(name, 1.0) != 1.0:
            raise SafelightError(f"has {keys.architecture}.{name} {quoted(keys.find(name))}; only 1 is implemented")
    stretched = _llama3(keys.header, float(theta), size)
    if stretched is not None:
        return {"rope_theta": theta, **stretched}
    match kind:
        case "none":
            return {"rope_type": "default", "rope_theta": theta}
        case "linear":
            return {"rope_type": "linear", "rope_theta": theta, "factor": keys.need("rope.scaling.factor")}
        case "yarn":
            names = {"original_max_position_embeddings": "original_context_length"}
            names |= {"beta_fast": "yarn_beta_fast", "beta_slow": "yarn_beta_slow"}
            said = {ours: keys.find(f"rope.scaling.{theirs}") for ours, theirs in names.items()}
            said = {name: value for name, value in said.items() if value is not None}
            return {"rope_type": "yarn", "rope_theta": theta, "factor": keys.need("rope.scaling.factor"), **said}
    raise SafelightError(f"has {keys.architecture}.rope.scaling.type {quoted(kind)}; none, linear and yarn are read")


def _llama3(header: GGUFHeader, theta: float, size: int) -> dict[str, Any] | None:
    """Reads the stretching of the rotation from the divisors that Llama 3.1's files hold; None: there is none."""
    tensor = header.tensors.get(ROPE)
    if tensor is None:
        return None
    if tensor.shape != (size // 2,):
        raise SafelightError(f"has {ROPE} of shape {tensor.shape}")
    divisors = GGUFCheckpoint(header).read(ROPE)
    factor = round(float(divisors.max()), 4)
    low, high, original = LLAMA3.values()
    plain = inverse_frequencies(LayerConfig(FULL, size, 1, theta, 1.0))
    meant = plain / stretched_as_llama3(plain, max(factor, 1.0), int(original), low, high)
    if not torch.allclose(divisors, meant, rtol=1e-3):
        raise SafelightError(f"has {ROPE} of another kind than Llama 3's")
    return {"rope_type": "llama3", "factor": factor, **LLAMA3} if factor > 1 else None


def _llama(keys: GGUFKeys, _shared: dict[str, Any]) -> dict[str, Any]:
    return {"attention_bias": "blk.0.attn_q.bias" in keys.header.tensors}


def _mistral3(keys: GGUFKeys, shared: dict[str, Any]) -> dict[str, Any]:
    rope, multiplier = dict(shared["rope_parameters"]), keys.find("rope.scaling.yarn_log_multiplier", 0.0)
    if multiplier:
        rope |= {"mscale": 1.0, "mscale_all_dim": multiplier}
    beta = keys.find("attention.temperature_scale")
    if beta is not None:
        rope["llama_4_scaling_beta"] = beta
        period = keys.find("attention.temperature_length", rope.get("original_max_position_embeddings"))
        if period != rope.setdefault("original_max_position_embeddings", period):
            raise SafelightError(f"has {keys.architecture}.attention.temperature_length of another length than YaRN's")
    return {"rope_parameters": rope}


def _gemma3(keys: GGUFKeys, shared: dict[str, Any]) -> dict[str, Any]:
    count = shared["num_hidden_layers"]
    check_whole(f"{keys.architecture}.block_count", count, 1, MAX_LAYERS)
    every = keys.find("attention.sliding_window_pattern", GEMMA_PATTERN)
    check_whole(f"{keys.architecture}.attention.sliding_window_pattern", every, 1, MAX_LAYERS)
    near = {"rope_type": "default", "rope_theta": keys.find("rope.freq_base_swa", GEMMA_NEAR_THETA)}
    divisor = shared["hidden_size"] // shared["num_attention_heads"] if count == GEMMA_27B else shared["head_dim"]
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": keys.need("attention.sliding_window"),
        "layer_types": [SLIDING if (index + 1) % every else FULL for index in range(count)],
        "query_pre_attn_scalar": divisor,
        "final_logit_softcapping": keys.find("final_logit_softcapping"),
        "rope_parameters": {FULL: shared["rope_parameters"], SLIDING: near},
    }


def _masked(keys: GGUFKeys, _shared: dict[str, Any]) -> dict[str, Any]:
    return {"mask_token_id": keys.token("mask")}


def _llada(keys: GGUFKeys, shared: dict[str, Any]) -> dict[str, Any]:
    return (
        {theirs: shared[ours] for ours, theirs in WORDS.items()}
        | LIKE_LLAMA
        | {
            "rope_theta": shared["rope_parameters"]["rope_theta"],
            "mask_token_id": keys.token("mask"),
        }
    )


def _llada_moe(keys: GGUFKeys, shared: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_experts": keys.need("expert_count"),
        "num_experts_per_tok": keys.need("expert_used_count"),
        "expert_intermediate_size": keys.need("expert_feed_forward_length"),
        "dense_intermediate_size": shared["intermediate_size"],
        "qk_layernorm": True,
        "mask_token_id": keys.token("mask"),
    }


DESCRIBE: dict[str, Describe] = {
    name: partial(_describe, name, architecture)
    for name, architecture in {
        "llama": _Architecture("llama", "LlamaForCausalLM", neighbours=True, more=_llama),
        "smollm3": _Architecture("smollm3", "SmolLM3ForCausalLM", neighbours=True),
        "mistral3": _Architecture("ministral3", "Ministral3ForCausalLM", neighbours=True, more=_mistral3, sees=True),
        "qwen2": _Architecture("qwen2", "Qwen2ForCausalLM"),
        "qwen3": _Architecture("qwen3", "Qwen3ForCausalLM"),
        "llada": _Architecture("llada", "LLaDAModelLM", neighbours=True, more=_llada),
        "llada-moe": _Architecture("lladamoe", "LLaDAMoEModelLM", more=_llada_moe, has_experts=True),
        "dream": _Architecture("Dream", "DreamModel", more=_masked),
        "gemma3": _Architecture("gemma3_text", "Gemma3ForCausalLM", more=_gemma3, is_gemma=True, sees=True),
    }.items()
}
"""By ``general.architecture``. SmolLM3's files do not say which layers rotate: the published ones, as in llama.cpp."""
