"""Reads the ``config.json`` of LLaDA, whose words are those of OLMo. Knows no tensors.

Of what OLMo's words can say, this engine runs what the published checkpoints have: a Llama that sees in both
directions. Fields that a file leaves out have the values of ``configuration_llada.py`` of GSAI-ML/LLaDA.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.config import MOST_HEAD_DIM, MOST_HEADS
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import flag, read_causal

MASK = 126336
THETA, EPSILON, MLP_RATIO = 10_000.0, 1e-5, 4  # for files without
MOST_RATIO = 64  # of the MLP's width to the hidden size
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


def read_config(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` describes.

    Raises:
        SafelightError: as ``read_causal``.
    """
    for name, (supported, default) in _ONLY.items():
        found = default if raw.get(name) is None else raw[name]
        if found != supported:
            raise SafelightError(f"config.json: {name} {quoted(found)} is not supported, only {supported!r}")
    own = {name: raw[word] for name, word in WORDS.items() if raw.get(word) is not None}
    for name in ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings"):
        if name not in own:
            raise SafelightError(f"config.json: {WORDS[name]} is missing")
    if "intermediate_size" not in own:
        ratio = raw.get("mlp_ratio", MLP_RATIO)
        check_whole("config.json: mlp_ratio", ratio, 1, MOST_RATIO)
        check_whole("config.json: d_model", own["hidden_size"], 1, MOST_HEADS * MOST_HEAD_DIM)
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
