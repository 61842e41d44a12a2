"""LLaDA, Dream and what dllm made of other models: their words, their tensors by name, and the settings of a run."""

from __future__ import annotations

from typing import Any

import pytest

from engine import SafelightError
from engine.adapters.lora import Place
from engine.models.causal.config import CausalConfig
from engine.models.registry import FAMILIES, family_of

NULL: Any = None
LLADA: dict[str, Any] = {  # config.json of GSAI-ML/LLaDA-8B-Instruct
    "model_type": "llada", "activation_type": "silu", "alibi": False, "attention_layer_norm": False,
    "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": 4096,
    "embedding_size": 126464, "eos_token_id": 126081, "include_bias": False, "include_qkv_bias": False,
    "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": 126336,
    "max_sequence_length": 4096, "mlp_hidden_size": 12288, "mlp_ratio": 4, "multi_query_attention": NULL,
    "n_heads": 32, "n_kv_heads": 32, "n_layers": 32, "pad_token_id": 126081, "rms_norm_eps": 1e-05, "rope": True,
    "rope_full_precision": True, "rope_theta": 500000.0, "scale_logits": False, "vocab_size": 126464,
    "weight_tying": False,
}  # fmt: skip
DREAM: dict[str, Any] = {  # of Dream-org/Dream-v0-Instruct-7B
    "model_type": "Dream", "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584,
    "intermediate_size": 18944, "mask_token_id": 151666, "max_position_embeddings": 131072, "max_window_layers": 28,
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "pad_token_id": 151643,
    "rms_norm_eps": 1e-06, "rope_scaling": NULL, "rope_theta": 1000000.0, "sliding_window": NULL,
    "tie_word_embeddings": False, "use_mrope": False, "use_sliding_window": False, "vocab_size": 152064,
}  # fmt: skip
FAST_DLLM: dict[str, Any] = {  # as Qwen2.5-7B's, which Fast-dLLM v2 was made of, with its own words
    name: value for name, value in DREAM.items() if name not in ("mask_token_id", "use_mrope")
} | {"model_type": "Fast_dLLM_Qwen", "bd_size": 32, "eos_token_id": 151645}
QWEN3: dict[str, Any] = {  # of dllm-hub's Qwen3-0.6B models
    "model_type": "a2d-qwen3", "attention_bias": False, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
    "sliding_window": NULL, "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 151936,
    "layer_types": ["full_attention"] * 28, "eos_token_id": 151645,
}  # fmt: skip


FACTS = (
    "mask_token_id", "shifts_masks", "attention_bias", "query_key_norm", "tied", "canvas_length",
    "blocks_follow_prompt",
)  # fmt: skip


def read(raw: dict[str, Any], **changes: Any) -> CausalConfig:
    raw = raw | changes
    found = family_of(raw).read_config({name: value for name, value in raw.items() if value is not ...})
    assert isinstance(found, CausalConfig)
    return found


def test_gate_and_up_are_distinguished() -> None:
    """The activation takes ``ff_proj``, of the two of one shape."""
    name = FAMILIES["llada"].names.released
    assert name("layers.3.mlp.gate_proj.weight") == "model.transformer.blocks.3.ff_proj.weight"
    assert name("layers.3.mlp.up_proj.weight") == "model.transformer.blocks.3.up_proj.weight"
    assert name("layers.3.self_attn.q_proj.bias") == "model.transformer.blocks.3.q_proj.bias"


def test_adapters_of_llada_have_its_own_names() -> None:
    targets, body = FAMILIES["llada"].targets, "model.transformer.blocks.3."
    names = {
        "self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj", "self_attn.v_proj": "v_proj",
        "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out",
    }  # fmt: skip
    for own, theirs in names.items():
        place = Place(f"layers.3.{own}", "causal")
        assert targets.peft_name(place) == body + theirs
        assert targets.place_named(body + theirs) == place
    assert targets.place_named(f"{body}attn_norm") is None
    assert targets.place_named("model.transformer.ff_out") is None


def test_each_family_reads_its_own_words() -> None:
    qwens = [QWEN3 | {"model_type": name} for name in ("a2d-qwen3", "a2d-qwen2", "a2d-llama")]
    facts = {
        raw["model_type"]: tuple(getattr(read(raw), name) for name in FACTS)
        for raw in (LLADA, DREAM, FAST_DLLM, *qwens)
    }
    assert facts == {
        "llada": (126336, False, False, False, False, 32, False),
        "Dream": (151666, True, True, False, False, 512, False),
        "Fast_dLLM_Qwen": (151665, True, True, False, False, 32, False),
        "a2d-qwen3": (151669, False, False, True, True, 32, True),
        "a2d-qwen2": (151665, False, True, False, True, 32, True),
        "a2d-llama": (None, False, False, False, True, 32, True),
    }
    found = read(LLADA)
    assert (found.intermediate_size, found.rms_norm_eps, found.layers[0].rope_theta) == (12288, 1e-5, 5e5)
    assert (found.vocab_size, found.max_position_embeddings, found.pad_token_id) == (126464, 4096, 126081)
    left_out = read(
        LLADA, mlp_hidden_size=NULL, n_kv_heads=NULL, weight_tying=..., embedding_size=NULL, vocab_size=130000
    )
    assert (left_out.intermediate_size, left_out.tied, left_out.vocab_size) == (4 * 4096, True, 130000)
    assert left_out.layers[0].num_key_value_heads == 32
    assert read(LLADA, n_kv_heads=NULL, multi_query_attention=True).layers[0].num_key_value_heads == 1
    assert read(LLADA, include_qkv_bias=True).attention_bias
    assert (read(FAST_DLLM, bd_size=8).canvas_length, read(FAST_DLLM, bd_size=NULL).canvas_length) == (8, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_type": "sequential"}, "block_type 'sequential' is not supported, only 'llama'"),
        ({"activation_type": "swiglu"}, "activation_type 'swiglu' is not supported, only 'silu'"),
        ({"layer_norm_type": "gemma_rms"}, "layer_norm_type 'gemma_rms' is not supported, only 'rms'"),
        ({"rope": ...}, "rope False is not supported, only True"),
        ({"scale_logits": [1]}, "scale_logits [1] is not supported"),
        ({"d_model": ...}, "d_model is missing"),
        ({"mlp_hidden_size": ..., "mlp_ratio": "9"}, "mlp_ratio must be a whole number"),
        ({"mlp_hidden_size": ..., "d_model": 2**60}, "d_model must be a whole number"),
        ({"mask_token_id": 126464}, "mask_token_id must be a whole number between 0 and 126463"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SafelightError) as error:
        read(LLADA, **changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
