"""LLaDA2 written out plainly over the tensors of a published checkpoint: token after token, expert after expert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from engine.files import write_json
from tests.engine.small import write_tokenizer

Tensors = dict[str, Tensor]
SMALL: dict[str, Any] = {
    "model_type": "llada2_moe",
    "vocab_size": 131,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "use_qkv_bias": False,
    "use_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000.0,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "mask_token_id": 5,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "num_experts": 12,
    "num_experts_per_tok": 3,
    "num_shared_experts": 1,
    "moe_intermediate_size": 64,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1,
}


def shapes(raw: dict[str, Any]) -> dict[str, list[int]]:
    """The tensors of a checkpoint, in the order of its file."""
    hidden, size = raw["hidden_size"], raw["head_dim"]
    heads, kept = raw["num_attention_heads"], raw["num_key_value_heads"]

    def mlp(name: str, width: int) -> dict[str, list[int]]:
        return {
            f"{name}.gate_proj.weight": [width, hidden],
            f"{name}.up_proj.weight": [width, hidden],
            f"{name}.down_proj.weight": [hidden, width],
        }

    found = {"lm_head.weight": [raw["vocab_size"], hidden]}
    for layer in range(raw["num_hidden_layers"]):
        name, width = f"model.layers.{layer}", raw["moe_intermediate_size"]
        found |= {
            f"{name}.attention.query_key_value.weight": [(heads + 2 * kept) * size, hidden],
            f"{name}.attention.dense.weight": [hidden, heads * size],
            f"{name}.attention.query_layernorm.weight": [size],
            f"{name}.attention.key_layernorm.weight": [size],
            f"{name}.input_layernorm.weight": [hidden],
            f"{name}.post_attention_layernorm.weight": [hidden],
        }
        if layer < raw["first_k_dense_replace"]:
            found |= mlp(f"{name}.mlp", raw["intermediate_size"])
            continue
        found |= {f"{name}.mlp.gate.weight": [raw["num_experts"], hidden]}
        found |= {f"{name}.mlp.gate.expert_bias": [raw["num_experts"]]}
        if raw["num_shared_experts"]:
            found |= mlp(f"{name}.mlp.shared_experts", width * raw["num_shared_experts"])
        for expert in range(raw["num_experts"]):
            found |= mlp(f"{name}.mlp.experts.{expert}", width)
    return found | {"model.norm.weight": [hidden], "model.word_embeddings.weight": [raw["vocab_size"], hidden]}


def drawn(shapes: dict[str, list[int]], seed: int) -> Tensors:
    """Random tensors: matrices that keep sizes, norms around 1, biases around 0."""
    draws = torch.Generator().manual_seed(seed)
    found = Tensors()
    for name, shape in shapes.items():
        numbers = torch.randn(shape, generator=draws)
        is_bias = name.endswith("bias")
        found[name] = numbers * shape[-1] ** -0.5 if len(shape) > 1 else numbers * 0.3 + (0 if is_bias else 1)
    return found


def save(folder: Path, raw: dict[str, Any], tensors: Tensors) -> Path:
    """A checkpoint with a tokenizer of bytes."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", raw)
    write_tokenizer(folder)
    save_file(tensors, folder / "model.safetensors")
    return folder


def logits(raw: dict[str, Any], tensors: Tensors, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    """Logits (T, V) of rows (T,) under a mask (T, T), True where allowed."""
    x = tensors["model.word_embeddings.weight"][ids]
    for layer in range(raw["num_hidden_layers"]):
        own = {n.split(".", 3)[3]: t for n, t in tensors.items() if n.startswith(f"model.layers.{layer}.")}
        x = x + _attended(raw, own, _normed(raw, x, own["input_layernorm.weight"]), positions, mask)
        inner = _normed(raw, x, own["post_attention_layernorm.weight"])
        is_dense = layer < raw["first_k_dense_replace"]
        x = x + (_mlp(own, "mlp", inner) if is_dense else torch.stack([_routed(raw, own, row) for row in inner]))
    return _normed(raw, x, tensors["model.norm.weight"]) @ tensors["lm_head.weight"].T


def _normed(raw: dict[str, Any], x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + raw["rms_norm_eps"]).sqrt() * weight


def _attended(raw: dict[str, Any], own: Tensors, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    heads, kept, size = raw["num_attention_heads"], raw["num_key_value_heads"], raw["head_dim"]
    rows = (x @ own["attention.query_key_value.weight"].T).view(len(x), heads + 2 * kept, size)
    turned = int(size * raw["partial_rotary_factor"])
    pairs = torch.arange(turned // 2)
    angles = positions[:, None] * raw["rope_theta"] ** (-2.0 * pairs / turned)

    def rotated(head: Tensor, norm: Tensor) -> Tensor:
        head = _normed(raw, head, norm).clone()
        first, second = head[:, : turned // 2].clone(), head[:, turned // 2 : turned].clone()
        head[:, : turned // 2] = first * angles.cos() - second * angles.sin()
        head[:, turned // 2 : turned] = second * angles.cos() + first * angles.sin()
        return head

    outs = []
    for head in range(heads):
        group = head * kept // heads
        query = rotated(rows[:, head], own["attention.query_layernorm.weight"])
        key = rotated(rows[:, heads + group], own["attention.key_layernorm.weight"])
        scores = (query @ key.T * size**-0.5).masked_fill(~mask, -torch.inf)
        outs.append(scores.softmax(-1) @ rows[:, heads + kept + group])
    return torch.cat(outs, dim=-1) @ own["attention.dense.weight"].T


def _mlp(own: Tensors, name: str, x: Tensor) -> Tensor:
    gate, up, down = (own[f"{name}.{part}_proj.weight"] for part in ("gate", "up", "down"))
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def _routed(raw: dict[str, Any], own: Tensors, x: Tensor) -> Tensor:
    """The experts' and the shared MLP's results for one token (H,)."""
    scores = (own["mlp.gate.weight"] @ x).sigmoid().tolist()
    ranked = (torch.tensor(scores) + own["mlp.gate.expert_bias"]).tolist()
    each = raw["num_experts"] // raw["n_group"]
    groups = [range(first, first + each) for first in range(0, raw["num_experts"], each)]
    by_two = sorted(groups, key=lambda group: sum(sorted(ranked[one] for one in group)[-2:]))
    allowed = [one for group in by_two[-raw["topk_group"] :] for one in group]
    chosen = sorted(allowed, key=lambda one: ranked[one])[-raw["num_experts_per_tok"] :]
    total = sum(scores[one] for one in chosen) if len(chosen) > 1 else 1.0
    out = sum(scores[one] / total * _mlp(own, f"mlp.experts.{one}", x) for one in chosen)
    shared = _mlp(own, "mlp.shared_experts", x) if raw["num_shared_experts"] else 0.0
    return raw["routed_scaling_factor"] * out + shared
