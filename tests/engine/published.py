"""Models with masks as they are published: config.json, and every tensor by its name and shape.

Restated from their authors' modelling files. It is those names and shapes that the engine's own are held to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.catalog import shape
from engine.files import read_json

Shapes: TypeAlias = dict[str, list[int]]
LLADA_MOE: dict[str, Any] = {  # of LLaDA-MoE-7B-A1B, whose files say llada as well
    "model_type": "llada", "architectures": ["LLaDAMoEModelLM"], "attention_bias": False, "hidden_act": "silu",
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
    "dense_intermediate_size": 8192, "expert_intermediate_size": 1024, "shared_expert_intermediate_size": None,
    "num_experts": 64, "num_experts_per_tok": 8, "moe_layer_freq": [1] * 16, "moe_router_score_function": "softmax",
    "norm_topk_prob": None, "qk_layernorm": True, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
    "rope_theta": 50000, "tie_word_embeddings": False, "vocab_size": 157184, "pad_token_id": 156892,
    "eos_token_id": 156892, "mask_token_id": 156895, "torch_dtype": "bfloat16",
}  # fmt: skip


@dataclass(frozen=True)
class Qwen:
    """Sizes of a network with the names of Qwen's tensors."""

    hidden: int
    width: int  # of an MLP or an expert
    layers: int
    heads: int
    keys: int
    vocabulary: int
    head: int = 128
    has_biases: bool = False  # of queries, keys and values
    has_norms: bool = False  # of queries and keys
    is_tied: bool = False
    experts: int = 0

    def tensors(self) -> Shapes:
        ends = ("model.embed_tokens",) if self.is_tied else ("model.embed_tokens", "lm_head")
        found = {f"{name}.weight": [self.vocabulary, self.hidden] for name in ends}
        found["model.norm.weight"] = [self.hidden]
        for layer in range(self.layers):
            found |= {f"model.layers.{layer}.{name}": size for name, size in self._layer().items()}
        return found

    def _layer(self) -> Shapes:
        rows = {"q": self.heads * self.head, "k": self.keys * self.head, "v": self.keys * self.head}
        found = {f"self_attn.{one}_proj.weight": [count, self.hidden] for one, count in rows.items()}
        found["self_attn.o_proj.weight"] = [self.hidden, rows["q"]]
        if self.has_biases:
            found |= {f"self_attn.{one}_proj.bias": [count] for one, count in rows.items()}
        if self.has_norms:
            found |= {f"self_attn.{one}_norm.weight": [self.head] for one in "qk"}
        found |= {f"{name}_layernorm.weight": [self.hidden] for name in ("input", "post_attention")}
        if self.experts:
            found["mlp.gate.weight"] = [self.experts, self.hidden]
        for path in [f"mlp.experts.{one}" for one in range(self.experts)] or ["mlp"]:
            found |= {f"{path}.{one}_proj.weight": [self.width, self.hidden] for one in ("gate", "up")}
            found[f"{path}.down_proj.weight"] = [self.hidden, self.width]
        return found


def llada_8b() -> Shapes:
    body, wide = "model.transformer.", [4096, 4096]
    found = {f"{body}{name}.weight": [126464, 4096] for name in ("wte", "ff_out")} | {f"{body}ln_f.weight": [4096]}
    for layer in range(32):
        block = f"{body}blocks.{layer}."
        found |= {f"{block}{name}.weight": wide for name in ("q_proj", "k_proj", "v_proj", "attn_out")}
        found |= {f"{block}{name}.weight": [12288, 4096] for name in ("ff_proj", "up_proj")}
        found |= {f"{block}ff_out.weight": [4096, 12288]}
        found |= {f"{block}{name}.weight": [4096] for name in ("attn_norm", "ff_norm")}
    return found


DREAM = Qwen(3584, 18944, 28, 28, 4, 152064, has_biases=True)
FAST = Qwen(1536, 8960, 28, 12, 2, 151936, has_biases=True, is_tied=True)
QWEN3 = Qwen(1024, 3072, 28, 16, 8, 151936, has_norms=True, is_tied=True)
SDAR = Qwen(4096, 12288, 36, 32, 8, 151936, has_norms=True)
RND1 = Qwen(2048, 768, 48, 32, 4, 151936, has_norms=True, experts=128)
MOE = Qwen(2048, 1024, 16, 16, 16, 157184, has_norms=True, experts=64)


def _config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(shape(name).folder / "config.json")
    return found


@dataclass(frozen=True)
class PublishedModel:
    """A checkpoint: its config.json, its tensors, and how many numbers they have in all."""

    raw: dict[str, Any]
    tensors: Shapes
    numbers: float


PUBLISHED = {
    "LLaDA-8B": PublishedModel(_config("llada-8b"), llada_8b(), 8.016e9),
    "LLaDA-MoE-7B-A1B": PublishedModel(LLADA_MOE, MOE.tensors(), 7.357e9),
    "Dream-7B": PublishedModel(_config("dream-7b"), DREAM.tensors(), 7.616e9),
    "Fast-dLLM v2 1.5B": PublishedModel(_config("fast-dllm-v2-1.5b"), FAST.tensors(), 1.544e9),
    "Fast-dLLM v2 7B": PublishedModel(_config("fast-dllm-v2-7b"), DREAM.tensors(), 7.616e9),
    "dllm Qwen3-0.6B": PublishedModel(_config("a2d-qwen3-0.6b"), QWEN3.tensors(), 0.596e9),
    "RND1": PublishedModel(_config("rnd1"), RND1.tensors(), 30.53e9),
    "SDAR-8B": PublishedModel(_config("wedlm-8b") | {"model_type": "sdar", "block_size": 4}, SDAR.tensors(), 8.191e9),
}
