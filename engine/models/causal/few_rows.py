"""A causal network's passes of few rows on a processor, in one call for all layers. Chooses where they are possible."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from engine.config import LayerConfig
from engine.kernels import native
from engine.kernels.few_rows import DenseLayers, LayerWeights, Norms
from engine.kernels.native.matrices import UNIT, Projection, group_of
from engine.layers.adapted import addition
from engine.layers.embedding import TokenTable
from engine.layers.mlp import GatedMLP
from engine.layers.norm import RMSNorm
from engine.layers.packed_linear import PackedLinear, PackedTokenTable
from engine.models.causal.block import CausalBlock, SandwichBlock
from engine.models.causal.config import CausalConfig

MOST_ROWS = 16  # of a pass; from there on products by matrix units are faster


def layers_in_c(
    config: CausalConfig, blocks: nn.ModuleList, norm: RMSNorm, head: nn.Module, dtype: torch.dtype
) -> DenseLayers | None:
    """Returns the layers of a network for passes in C; None if there is no library, or it does not read them."""
    if native.library() is None or dtype not in (torch.float32, torch.bfloat16):
        return None
    if config.routing is not None or config.is_fused or any(layer.head_dim % UNIT for layer in config.layers):
        return None
    if any(addition(part) is not None for part in blocks.modules()):
        return None
    kinds = list(dict.fromkeys(config.layers))
    with torch.no_grad():
        layers = [
            _layer(cast(CausalBlock, block), layer, kinds.index(layer))
            for block, layer in zip(blocks, config.layers, strict=True)
        ]
        last = _projection(head)
        groups = {group_of(part) for part in (last, *(part for layer in layers for part in layer.projections))}
        if None in groups or len(groups - {0}) > 1:
            return None
        return DenseLayers(layers, last, _factors(norm), config.rms_norm_eps, config.activation)


def _layer(block: CausalBlock, layer: LayerConfig, kind: int) -> LayerWeights:
    attention, mlp = block.self_attn, cast(GatedMLP, block.mlp)
    matrices = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    return LayerWeights(
        tuple(map(_projection, (*matrices, mlp.gate_proj, mlp.up_proj, mlp.down_proj))),
        norms=_norms(block),
        heads=attention.sizes[0] // layer.head_dim,
        key_heads=layer.num_key_value_heads,
        head_size=layer.head_dim,
        query_scale=attention.scale,
        reach=kind,
    )


def _norms(block: CausalBlock) -> Norms:
    own = block.self_attn.q_norm, block.self_attn.k_norm
    queries, keys = (_factors(norm) if isinstance(norm, RMSNorm) else None for norm in own)
    before, after = _factors(block.input_layernorm), _factors(block.post_attention_layernorm)
    if isinstance(block, SandwichBlock):
        before_mlp = _factors(block.pre_feedforward_layernorm)
        return Norms(before, before_mlp, queries, keys, after, _factors(block.post_feedforward_layernorm))
    return Norms(before, after, queries, keys)


def _factors(norm: RMSNorm) -> Tensor:
    assert norm.weight is not None
    own = norm.weight.detach().float()
    return (own + 1 if norm.adds_one else own).contiguous()


def _projection(layer: nn.Module) -> Projection:
    if isinstance(layer, PackedLinear):
        return Projection(layer.weight.packed, layer.bias)
    if isinstance(layer, PackedTokenTable | TokenTable):
        return Projection(layer.table)
    layer = cast(nn.Linear, layer)
    return Projection(layer.weight, layer.bias)
