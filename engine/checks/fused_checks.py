"""Compares the kernels used only by fused layers, norms and router, with their oracles. Needs Triton."""

from __future__ import annotations

from functools import partial

import torch

from engine.checks import end_checks, layer_checks
from engine.checks.operands import CONTEXT, draws, normal
from engine.checks.oracle import OracleCheck
from engine.config import LayerConfig
from engine.kernels import norms
from engine.kernels.router import route
from engine.layers.moe import Router
from engine.models.diffusion_gemma.network import DiffusionGemma


def router_check(router: Router, network: DiffusionGemma, tokens: int) -> OracleCheck:
    """Checks the router's scores, weights and choice."""
    x = normal(tokens, network.config.hidden_size, device=network.device, dtype=network.dtype, seed=6)
    scales = normal(network.config.num_experts, device=network.device, dtype=network.dtype, seed=7).exp()
    return end_checks.router_check(route, x, router.proj.weight, scales, router.top_k)


def head_norms_check(
    heads: int, layer: LayerConfig, tokens: int, device: torch.device, dtype: torch.dtype
) -> OracleCheck:
    """Checks the norms of heads with rotary embedding, written into a cache."""
    random = partial(normal, device=device, dtype=dtype)
    size, kv_heads = layer.head_dim, layer.num_key_value_heads
    angle = torch.rand(tokens, size // 2, generator=draws(device, 9), device=device) * 6.28
    angles = torch.cat([angle, angle], dim=-1)
    counts = (heads, kv_heads, kv_heads)
    queries, keys, values = (random(tokens, count * size, seed=seed) for seed, count in enumerate(counts))
    return layer_checks.head_norm_rope_check(
        norms.head_norm_rope,
        (queries, keys, values),
        (random(size, seed=4), random(size, seed=5)),
        (angles.cos().to(dtype), angles.sin().to(dtype)),
        end=tokens + 11,
        capacity=tokens + CONTEXT,
    )


def add_norm_check(network: DiffusionGemma, tokens: int) -> OracleCheck:
    """Checks the norm after attention, added to its input."""
    hidden = network.config.hidden_size
    random = partial(normal, device=network.device, dtype=network.dtype)
    x, y = (random(tokens, hidden, seed=seed) for seed in range(2))
    return layer_checks.add_norm_check(norms.add_norm, x, y, random(hidden, seed=2), random(3, hidden, seed=3))


def merge_norm_check(network: DiffusionGemma, tokens: int) -> OracleCheck:
    """Checks the sum of a layer's dense and sparse halves at its end."""
    random = partial(normal, device=network.device, dtype=network.dtype)
    hidden, top_k = network.config.hidden_size, network.config.top_k_experts
    x, dense = (random(tokens, hidden, seed=seed) for seed in range(2))
    sparse = random(tokens * top_k, hidden, seed=5)
    weights, scalars = random(4, hidden, seed=3), random(2, seed=4)
    return layer_checks.merge_norm_check(norms.merge_norm, x, dense, sparse, weights, scalars, tokens // 2)
