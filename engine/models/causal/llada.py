"""Reads the ``config.json`` of LLaDA and LLaDA-MoE, and names their tensors. LLaDA's words are those of OLMo.

Of what OLMo's words can say, this engine runs what the published checkpoints have: a Llama that sees in both
directions. Fields that a file leaves out have the values of ``configuration_llada.py`` of GSAI-ML/LLaDA.
LLaDA-MoE has experts under the names of Qwen's tensors. What its published checkpoint does not have is refused: shared
experts, biases of experts, and clipping.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from typing import Any

from engine.config import MAX_HEAD_DIM, MAX_HEADS, ExpertRouting
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.layout import targets
from engine.models.causal.reading import MAX_WIDTH, flag, need_whole, read_causal, with_experts
from engine.weights.layout import Names

MASK = 126336
THETA, EPSILON, MLP_RATIO = 10_000.0, 1e-5, 4  # for files without
MAX_RATIO = 64  # of the MLP's width to the hidden size
WORDS = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "num_hidden_layers": "n_layers",
    "intermediate_size": "mlp_hidden_size",
    "max_position_embeddings": "max_sequence_length",
    "tie_word_embeddings": "weight_tying",
}
"""Those of ``read_causal``, and LLaDA's."""
_ONLY: dict[str, tuple[Any, Any]] = {
    "block_type": ("llama", "sequential"),
    "activation_type": ("silu", "swiglu"),
    "layer_norm_type": ("rms", "default"),
    "rope": (True, False),
    "alibi": (False, False),
    "attention_layer_norm": (False, False),
    "layer_norm_with_affine": (True, True),
    "bias_for_layer_norm": (False, False),
    "include_bias": (False, False),
    "input_emb_norm": (False, False),
    "scale_logits": (False, False),
    "block_group_size": (1, 1),
}
"""The one value that is supported of a field, and that of a file without it."""
LIKE_LLAMA = {name: supported for name, (supported, _) in _ONLY.items()}
"""The fields of a file that is supported."""


def read_llada(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` describes.

    Raises:
        SafelightError: as ``read_causal``.
    """
    for name, (supported, default) in _ONLY.items():
        value = default if raw.get(name) is None else raw[name]
        if value != supported:
            raise SafelightError(f"config.json: {name} {quoted(value)} is not supported, only {supported!r}")
    own = {name: raw[word] for name, word in WORDS.items() if raw.get(word) is not None}
    for name in ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings"):
        if name not in own:
            raise SafelightError(f"config.json: {WORDS[name]} is missing")
    if "intermediate_size" not in own:
        ratio = raw.get("mlp_ratio", MLP_RATIO)
        check_whole("config.json: mlp_ratio", ratio, 1, MAX_RATIO)
        check_whole("config.json: d_model", own["hidden_size"], 1, MAX_HEADS * MAX_HEAD_DIM)
        own["intermediate_size"] = ratio * own["hidden_size"]
    if "num_key_value_heads" not in own and flag(raw, "multi_query_attention", False):
        own["num_key_value_heads"] = 1
    same = ("bos_token_id", "pad_token_id", "eos_token_id", "mask_token_id", "rope_theta", "block_size")
    own |= {name: raw.get(name) for name in same}
    own |= {"vocab_size": raw.get("embedding_size") or raw.get("vocab_size")}
    own |= {"rms_norm_eps": raw.get("rms_norm_eps", EPSILON)}
    bias = flag(raw, "include_qkv_bias", False)
    read = read_causal(own, rope_theta=THETA, mask_token_id=MASK, attention_bias=bias, tied=True)
    return replace(read, reads_whole=True)


MODEL_TYPE = "lladamoe"  # in files that are read by dllm; the published one says ``llada``
MOE_MASK, MOE_THETA = 156895, 50_000.0
_NONE = ("shared_expert_intermediate_size", "moe_router_enable_expert_bias", "clip_qkv")


def read_moe(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field, or a value that this engine does not implement.
    """
    for name in _NONE:
        if raw.get(name):
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported in this family")
    if raw.get("moe_router_score_function") not in (None, "softmax"):
        raise SafelightError("config.json: moe_router_score_function is not supported, only 'softmax'")
    width = need_whole(raw, "expert_intermediate_size", MAX_WIDTH)
    bias = flag(raw, "attention_bias", False)
    config = read_causal(
        {**raw, "intermediate_size": raw.get("dense_intermediate_size") or width},
        rope_theta=MOE_THETA,
        mask_token_id=MOE_MASK,
        attention_bias=bias,
        output_bias=bias,
        query_key_norm=flag(raw, "qk_layernorm", False),
    )
    routing = ExpertRouting(
        scores="softmax", groups=1, chosen_groups=1, has_bias=False, is_normed=False, scale=1.0, shared_width=0
    )
    whole = with_experts(config, {**raw, "moe_intermediate_size": width}, routing, _dense(raw))
    return replace(whole, reads_whole=True)


def _dense(raw: dict[str, Any]) -> int:
    """Returns how many first layers have no experts.

    Raises:
        SafelightError: others have none, too.
    """
    layers = raw.get("moe_layer_freq")
    if layers in (None, []):
        return 0
    if not isinstance(layers, list) or sorted(layers) != layers or not set(layers) <= {0, 1}:
        raise SafelightError(
            "config.json: moe_layer_freq is not supported, only layers without experts before all others"
        )
    return layers.count(0)


BODY = "model.transformer."
_PARTS = {
    "embed_tokens": "wte",
    "norm": "ln_f",
    "lm_head": "ff_out",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ff_norm",
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
}
"""Our own names of parts, in a layer or of the network, and LLaDA's."""
_LAYER = re.compile(r"layers\.(\d+)\.")


def released_name(parameter: str) -> str:
    path, _, kind = parameter.rpartition(".")
    layer = _LAYER.match(path)
    own = path if layer is None else path[layer.end() :]
    return BODY + ("" if layer is None else f"blocks.{layer[1]}.") + f"{_PARTS[own]}.{kind}"


NAMES = Names(released_name, ignored=re.compile(re.escape(BODY) + r"ff_out\.weight"))  # the head, if it is the table
_OF_LAYERS = tuple((own, other) for own, other in _PARTS.items() if own.startswith(("self_attn.", "mlp.")))
TARGETS = dataclasses.replace(targets(BODY), theirs=(("layers.", "blocks."), *_OF_LAYERS))
