"""Checks of the kernels in a network's own layers against their oracles: its first sliding and first full layer.

Everything is called as in a step, so that on a device without kernels the plain path is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from engine import kernels
from engine.checks import end_checks, layer_checks, product_checks
from engine.checks.operands import draws, normal, routing
from engine.checks.oracle import OracleCheck
from engine.checks.vocabulary_checks import vocabulary_check
from engine.config import LayerConfig
from engine.kernels import reference
from engine.kernels.reference_step import VocabularyResult
from engine.layers.moe import Router
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedTokenTable
from engine.models.diffusion_gemma.block import Block
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import BF16, Activations

# On the plain path, which spends its time unpacking, and whose memory is part of the plan:
PLAIN_TOKENS = 16
PLAIN_EXPERTS = 16
PLAIN_ROWS = 16_384  # of the token table
PLAIN_ROUGH = (0.2, 0.5)  # shares of best tokens and draws that may differ, since logits are rounded to bf16
CONTEXT = 40  # tokens before the canvas


@dataclass(frozen=True)
class LayerCheck:
    """A check of one kernel at one place in the network."""

    kernel: str
    where: str
    make: partial[OracleCheck]


def network_checks(network: DiffusionGemma, activations: Activations = BF16) -> Iterator[LayerCheck]:
    """All checks of a network with packed weights, the vocabulary stage last, with ``activations`` in int8."""
    config, is_fast = network.config, network.device.type == "cuda"
    tokens = config.canvas_length if is_fast else min(config.canvas_length, PLAIN_TOKENS)
    random = partial(normal, device=network.device, dtype=network.dtype)
    for layer in dict.fromkeys(config.layers):
        index = config.layers.index(layer)
        block = network.layers[index]
        assert isinstance(block, Block)
        for path, module in block.named_modules():
            where = f"layer {index}, {path}"
            if isinstance(module, PackedLinear):
                yield LayerCheck("linear", where, partial(_linear, module, random(tokens, _inputs(module), seed=index)))
            elif isinstance(module, PackedExperts):
                hidden = random(tokens, config.hidden_size, seed=index)
                used = config.num_experts if is_fast else min(config.num_experts, PLAIN_EXPERTS)
                chosen = routing(tokens, used, config.top_k_experts, network.device, seed=index)
                yield LayerCheck("experts", where, partial(_experts, module, hidden, *chosen))
        yield LayerCheck("attention", f"layer {index}", partial(_attention, network, layer, tokens))
        if kernels.why_plain(network.device) is None:
            yield LayerCheck("norms", f"layer {index}, heads", partial(_head_norms, network, layer, tokens))
            yield LayerCheck("router", f"layer {index}", partial(_router, block.router, network, tokens))
    if kernels.why_plain(network.device) is None:
        yield LayerCheck("norms", "after attention", partial(_add_norm, network, tokens))
        yield LayerCheck("norms", "at a layer's end", partial(_merge_norm, network, tokens))
    table: nn.Module = network.embed_tokens
    if isinstance(table, PackedTokenTable):
        yield LayerCheck("vocabulary", "token table", partial(_vocabulary, network, table, tokens, activations))


def _inputs(linear: PackedLinear) -> int:
    return linear.weight.shape[-1]


def _linear(linear: PackedLinear, x: Tensor) -> OracleCheck:
    oracle = reference.linear_int8 if linear.rounds else reference.linear
    return product_checks.linear_check(lambda x, _: linear(x), x, linear.weight.packed, oracle)


def _experts(experts: PackedExperts, x: Tensor, weights: Tensor, chosen: Tensor) -> OracleCheck:
    gate_up, down = experts.gate_up_proj.packed, experts.down_proj.packed
    return product_checks.experts_check(lambda *parts: experts(*parts[:3]), x, weights, chosen, gate_up, down)


def _router(router: Router, network: DiffusionGemma, tokens: int) -> OracleCheck:
    from engine.kernels.router import route

    x = normal(tokens, network.config.hidden_size, device=network.device, dtype=network.dtype, seed=6)
    scales = normal(network.config.num_experts, device=network.device, dtype=network.dtype, seed=7).exp()
    return end_checks.router_check(route, x, router.proj.weight, scales, router.top_k)


def _attention(network: DiffusionGemma, layer: LayerConfig, tokens: int) -> OracleCheck:
    random = partial(normal, device=network.device, dtype=network.dtype)
    heads, size, kept = layer.num_key_value_heads, layer.head_dim, CONTEXT + tokens + 5
    scale = 1.4 * size**-0.25
    return layer_checks.attention_check(
        kernels.attend,
        random(network.config.num_attention_heads, tokens, size, seed=1, scale=scale),
        random(heads, kept, size, seed=2, scale=scale),
        random(heads, kept, size, seed=3),
        (3, CONTEXT + tokens),
        0,
        None,
    )


def _head_norms(network: DiffusionGemma, layer: LayerConfig, tokens: int) -> OracleCheck:
    from engine.kernels import norms

    random = partial(normal, device=network.device, dtype=network.dtype)
    size, kv_heads = layer.head_dim, layer.num_key_value_heads
    angle = torch.rand(tokens, size // 2, generator=draws(network.device, 9), device=network.device) * 6.28
    angles = torch.cat([angle, angle], dim=-1)
    counts = (network.config.num_attention_heads, kv_heads, kv_heads)
    queries, keys, values = (random(tokens, count * size, seed=seed) for seed, count in enumerate(counts))
    return layer_checks.head_norm_rope_check(
        norms.head_norm_rope,
        (queries, keys, values),
        (random(size, seed=4), random(size, seed=5)),
        (angles.cos().to(network.dtype), angles.sin().to(network.dtype)),
        end=tokens + 11,
        capacity=tokens + CONTEXT,
    )


def _add_norm(network: DiffusionGemma, tokens: int) -> OracleCheck:
    from engine.kernels import norms

    hidden = network.config.hidden_size
    random = partial(normal, device=network.device, dtype=network.dtype)
    x, y = (random(tokens, hidden, seed=seed) for seed in range(2))
    return layer_checks.add_norm_check(norms.add_norm, x, y, random(hidden, seed=2), random(3, hidden, seed=3))


def _merge_norm(network: DiffusionGemma, tokens: int) -> OracleCheck:
    from engine.kernels import norms

    random = partial(normal, device=network.device, dtype=network.dtype)
    hidden, top_k = network.config.hidden_size, network.config.top_k_experts
    x, dense = (random(tokens, hidden, seed=seed) for seed in range(2))
    sparse = random(tokens * top_k, hidden, seed=5)
    weights, scalars = random(4, hidden, seed=3), random(2, seed=4)
    return layer_checks.merge_norm_check(norms.merge_norm, x, dense, sparse, weights, scalars, tokens // 2)


def _vocabulary(network: DiffusionGemma, table: PackedTokenTable, tokens: int, activations: Activations) -> OracleCheck:
    hidden = normal(tokens, network.config.hidden_size, device=network.device, dtype=network.dtype, seed=1)
    is_fast = network.device.type == "cuda"
    rows = table.table if is_fast else table.table.rows(0, min(network.config.vocab_size, PLAIN_ROWS))

    def stage(hidden: Tensor, _: object, **settings: object) -> VocabularyResult:
        return kernels.vocabulary_stage(hidden, rows, **settings)  # type: ignore[arg-type]

    if is_fast:
        return vocabulary_check(stage, hidden, rows, activations=activations)
    return vocabulary_check(stage, hidden, rows, rough=PLAIN_ROUGH, activations=activations)
