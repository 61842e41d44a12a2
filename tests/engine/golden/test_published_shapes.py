"""Published checkpoints in sparse files of full size, by what their ``config.json`` says of the network."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from engine import SafelightError
from engine.files import write_json
from engine.layers.kv_cache import SLACK
from engine.models.folder import ModelFolder

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "attention_bias": False,
    "hidden_act": "silu",
    "head_dim": 64,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
}
SMOLLM3 = {
    "model_type": "smollm3",
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "layer_types": ["full_attention"] * 36,
    "max_position_embeddings": 65536,
    "mlp_bias": False,
    "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 1, 1, 0] * 9,
    "num_attention_heads": 16,
    "num_hidden_layers": 36,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 5000000.0,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 128256,
}
GEMMA = {
    "model_type": "gemma3_text",
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
}
SEEING_GEMMA = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
}
MISTRAL = {
    "model_type": "mistral",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "vocab_size": 32768,
}
FIRST_MISTRAL = MISTRAL | {"rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 32000}
MINISTRAL3 = {
    "model_type": "mistral3",
    "text_config": {
        "model_type": "ministral3",
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 3072,
        "intermediate_size": 9216,
        "max_position_embeddings": 262144,
        "num_attention_heads": 32,
        "num_hidden_layers": 26,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_parameters": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 16.0,
            "llama_4_scaling_beta": 0.1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 16384,
            "rope_theta": 1000000.0,
            "rope_type": "yarn",
            "type": "yarn",
        },
        "sliding_window": None,
        "tie_word_embeddings": True,
        "vocab_size": 131072,
    },
    "tie_word_embeddings": True,
    "vision_config": {"hidden_size": 1024, "model_type": "pixtral"},
}
PUBLISHED: dict[str, tuple[dict[str, Any], Any, Any, float]] = {  # with the parameters that its text has
    "Llama-3.2-1B": (LLAMA, LlamaConfig, LlamaForCausalLM, 1.24e9),
    "SmolLM3-3B": (SMOLLM3, SmolLM3Config, SmolLM3ForCausalLM, 3.08e9),
    "gemma-3-1b-it": (GEMMA, Gemma3TextConfig, Gemma3ForCausalLM, 1.00e9),
    "gemma-3-4b-it": (SEEING_GEMMA, Gemma3TextConfig, Gemma3ForCausalLM, 3.88e9),
    "Mistral-7B-v0.3": (MISTRAL, MistralConfig, MistralForCausalLM, 7.25e9),
    "Ministral-3-3B-Instruct-2512": (MINISTRAL3, Ministral3Config, Ministral3ForCausalLM, 3.43e9),
}


def sparse(folder: Path, shapes: dict[str, list[int]], name: str = "model.safetensors") -> None:
    """A safetensors file in bf16, all of whose numbers are holes."""
    header, end = dict[str, Any](), 0
    for tensor, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with (folder / name).open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_tensor_of_a_published_checkpoint_is_accounted_for(name: str, tmp_path: Path) -> None:
    """Also a stored head that is the table, and old buffers; what a model sees with is named, anything else refused."""
    raw, config, model, parameters = PUBLISHED[name]
    text = raw.get("text_config", raw)
    with torch.device("meta"):
        theirs = model(config(**{field: value for field, value in text.items() if field != "model_type"}))
    assert theirs.num_parameters() == pytest.approx(parameters, rel=0.005)
    sees = "text_config" in raw
    before = "language_model." if sees else ""
    shapes = {before + name: list(tensor.shape) for name, tensor in theirs.state_dict().items()}
    if theirs.config.tie_word_embeddings and sees:
        del shapes[f"{before}lm_head.weight"]
    if sees:
        shapes |= {"vision_tower.vision_model.post_layernorm.weight": [8], "multi_modal_projector.norm.weight": [8]}
    else:
        shapes["model.layers.0.self_attn.rotary_emb.inv_freq"] = [64]
    write_json(tmp_path / "config.json", raw)
    sparse(tmp_path, shapes)
    opened = ModelFolder.open(tmp_path)
    assert opened.weights("int4", torch.device("meta"), None).skipped == (2 if sees else 0)
    planned = opened.plan(context=8192, quantization="none", device="cpu", dtype="bfloat16")
    weights = sum(planned.parts[part] for part in ("attention", "dense", "embedding", "other"))
    assert weights == pytest.approx(2 * parameters, rel=0.005)
    sparse(tmp_path, shapes | {f"{before}model.layers.0.mlp.gate.weight": [8]})
    with pytest.raises(SafelightError, match=r"mlp\.gate\.weight is not part of this model"):
        ModelFolder.open(tmp_path).weights("auto", torch.device("meta"), None)


def test_a_window_bounds_the_cache(tmp_path: Path) -> None:
    """In all layers of the first Mistral, in five of six of Gemma 3: 32 032 tokens are 63 times 512, rounded up."""
    sizes = dict[str, int]()
    for name, raw in (("Mistral-7B-v0.3", MISTRAL), ("Mistral-7B-v0.1", FIRST_MISTRAL), ("gemma-3-1b-it", GEMMA)):
        write_json(tmp_path / "config.json", raw)
        planned = ModelFolder.open(tmp_path).plan(context=32_000, device="cpu", dtype="bfloat16")
        sizes[name] = planned.parts["kv_cache"]
    whole, behind = 63 * 512, SLACK + 32  # a block behind the text
    assert sizes == {
        "Mistral-7B-v0.3": 32 * 4 * 8 * 128 * whole,
        "Mistral-7B-v0.1": 32 * 4 * 8 * 128 * (4095 + behind),
        "gemma-3-1b-it": 4 * 256 * (4 * whole + 22 * (511 + behind)),
    }
