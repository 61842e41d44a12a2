"""Checks the kernels in a network's own layers against their oracles: its first sliding and first full layer.

Everything is called as in a step, so that on a device without kernels the plain path is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from engine import kernels
from engine.checks import layer_checks, product_checks
from engine.checks.operands import CONTEXT, normal, routing
from engine.checks.oracle import OracleCheck
from engine.checks.vocabulary_checks import vocabulary_check
from engine.config import LayerConfig
from engine.kernels import reference
from engine.kernels.reference_step import VocabularyResult
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedTokenTable
from engine.models.diffusion_gemma.block import Block
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import BF16, Activations

# tokens on the plain path, which spends its time unpacking, and whose memory is part of the plan
PLAIN_TOKENS = 16
PLAIN_EXPERTS = 16
PLAIN_ROWS = 16_384  # rows of the token table
PLAIN_ROUGH = (0.2, 0.5)  # shares of best tokens and draws that may differ, since logits are rounded to bf16


@dataclass(frozen=True)
class LayerCheck:
    """A check of one kernel at one place in the network."""

    kernel: str
    where: str
    make: partial[OracleCheck]


def network_checks(network: DiffusionGemma, activations: Activations = BF16) -> Iterator[LayerCheck]:
    """Returns all checks of a network with packed weights, the vocabulary stage last, with ``activations`` in int8."""
    config, is_fast = network.config, network.device.type == "cuda"
    tokens = config.canvas_length if is_fast else min(config.canvas_length, PLAIN_TOKENS)
    random = partial(normal, device=network.device, dtype=network.dtype)
    has_kernels = kernels.why_plain(network.device) is None
    if has_kernels:
        from engine.checks import fused_checks  # needs Triton
    for layer in dict.fromkeys(config.layers):
        index = config.layers.index(layer)
        block = network.layers[index]
        assert isinstance(block, Block)
        for path, module in block.named_modules():
            where = f"layer {index}, {path}"
            if isinstance(module, PackedLinear):
                inputs = module.weight.shape[-1]
                yield LayerCheck("linear", where, partial(_linear, module, random(tokens, inputs, seed=index)))
            elif isinstance(module, PackedExperts):
                hidden = random(tokens, config.hidden_size, seed=index)
                used = config.num_experts if is_fast else min(config.num_experts, PLAIN_EXPERTS)
                chosen = routing(tokens, used, config.top_k_experts, network.device, seed=index)
                yield LayerCheck("experts", where, partial(_experts, module, hidden, *chosen))
        yield LayerCheck("attention", f"layer {index}", partial(_attention, network, layer, tokens))
        if has_kernels:
            count, place = config.num_attention_heads, (network.device, network.dtype)
            heads = partial(fused_checks.head_norms_check, count, layer, tokens, *place)
            yield LayerCheck("norms", f"layer {index}, heads", heads)
            router = partial(fused_checks.router_check, block.router, network, tokens)
            yield LayerCheck("router", f"layer {index}", router)
    if has_kernels:
        yield LayerCheck("norms", "after attention", partial(fused_checks.add_norm_check, network, tokens))
        yield LayerCheck("norms", "at a layer's end", partial(fused_checks.merge_norm_check, network, tokens))
    table: nn.Module = network.embed_tokens
    if isinstance(table, PackedTokenTable):
        yield LayerCheck("vocabulary", "token table", partial(_vocabulary, network, table, tokens, activations))


def _linear(linear: PackedLinear, x: Tensor) -> OracleCheck:
    oracle = reference.linear_int8 if linear.rounds else reference.linear
    return product_checks.linear_check(lambda x, _: linear(x), x, linear.weight.packed, oracle)


def _experts(experts: PackedExperts, x: Tensor, weights: Tensor, chosen: Tensor) -> OracleCheck:
    gate_up, down = experts.gate_up_proj.packed, experts.down_proj.packed
    return product_checks.experts_check(lambda *parts: experts(*parts[:3]), x, weights, chosen, gate_up, down)


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


def _vocabulary(network: DiffusionGemma, table: PackedTokenTable, tokens: int, activations: Activations) -> OracleCheck:
    hidden = normal(tokens, network.config.hidden_size, device=network.device, dtype=network.dtype, seed=1)
    is_fast = network.device.type == "cuda"
    rows = table.table if is_fast else table.table.rows(0, min(network.config.vocab_size, PLAIN_ROWS))

    def stage(hidden: Tensor, _: object, **settings: object) -> VocabularyResult:
        return kernels.vocabulary_stage(hidden, rows, **settings)  # type: ignore[arg-type]

    if is_fast:
        return vocabulary_check(stage, hidden, rows, activations=activations)
    return vocabulary_check(stage, hidden, rows, rough=PLAIN_ROUGH, activations=activations)
