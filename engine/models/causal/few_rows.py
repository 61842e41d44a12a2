"""A causal network's passes of few rows on a processor, in one call for all layers. Chooses where they are possible."""

from __future__ import annotations

import operator
from typing import cast

import torch
from torch import nn

from engine.adapters.lora import JoinedAdditions, LayerAdapter
from engine.config import LayerConfig
from engine.kernels import native
from engine.kernels.few_rows import DenseLayers, Factors, LayerWeights, Norms
from engine.kernels.native.matrices import UNIT, Added, Projection, group_of
from engine.layers.adapted import Addition, addition, additions_set
from engine.layers.embedding import TokenTable
from engine.layers.mlp import GatedMLP
from engine.layers.norm import RMSNorm
from engine.layers.packed_linear import PackedLinear, PackedTokenTable
from engine.models.causal.block import CausalBlock, SandwichBlock
from engine.models.causal.config import CausalConfig

MAX_ROWS = 16  # of a pass; from there on products by matrix units are faster


class LayersInC:
    """Makes a network's layers for passes in C, again after its adapters have changed.

    Keeps those with the last two sets of adapters: a draft's are on in every other pass.
    """

    def __init__(self, config: CausalConfig, blocks: nn.ModuleList, norm: RMSNorm, head: nn.Module) -> None:
        self._config, self._norm, self._head = config, norm, head
        self._blocks = [cast(CausalBlock, block) for block in blocks]
        self._can_be = config.routing is None and not config.is_fused
        self._can_be &= all(layer.head_dim % UNIT == 0 for layer in config.layers)
        self._linears = [part for block in self._blocks for part in _linears(block)] if self._can_be else []
        self._set = -1  # changes of adapters when ``_made`` was ordered
        self._made: list[tuple[list[Addition | None], DenseLayers | None]] = []

    def find(self) -> DenseLayers | None:
        """Returns the layers; None if there is no library, or it does not read them."""
        if not self._can_be or native.library() is None:
            return None
        if self._set != additions_set():
            self._set, own = additions_set(), [addition(part) for part in self._linears]
            found = next((made for made in self._made if all(map(operator.is_, made[0], own))), None)
            if found is None:
                with torch.no_grad():
                    found = own, self._make()
            self._made = [found, *(made for made in self._made if made is not found)][:2]
        return self._made[0][1]

    def _make(self) -> DenseLayers | None:
        kinds = list(dict.fromkeys(self._config.layers))
        layers = list[LayerWeights]()
        for block, layer in zip(self._blocks, self._config.layers, strict=True):
            found = _layer(block, layer, kinds.index(layer))
            if found is None:
                return None
            layers.append(found)
        last = _projection(self._head)
        parts = [part for layer in layers for part in layer.projections]
        groups = {None if part is None else group_of(part) for part in (last, *parts)}
        if last is None or None in groups or len(groups - {0}) > 1:
            return None
        return DenseLayers(layers, last, _factors(self._norm), self._config.rms_norm_eps, self._config.activation)


def _linears(block: CausalBlock) -> list[nn.Module]:
    attention, mlp = block.self_attn, cast(GatedMLP, block.mlp)
    matrices = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    return [*matrices, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def _layer(block: CausalBlock, layer: LayerConfig, kind: int) -> LayerWeights | None:
    found = [_projection(part) for part in _linears(block)]
    projections = tuple(part for part in found if part is not None)
    if len(projections) < len(found):
        return None
    return LayerWeights(
        projections,
        norms=_norms(block),
        heads=block.self_attn.sizes[0] // layer.head_dim,
        key_heads=layer.num_key_value_heads,
        head_size=layer.head_dim,
        query_scale=block.self_attn.scale,
        reach=kind,
    )


def _norms(block: CausalBlock) -> Norms:
    own = block.self_attn.q_norm, block.self_attn.k_norm
    queries, keys = (_factors(norm) if isinstance(norm, RMSNorm) else None for norm in own)
    before, after = _factors(block.input_layernorm), _factors(block.post_attention_layernorm)
    if isinstance(block, SandwichBlock):
        before_mlp, mixed = _factors(block.pre_feedforward_layernorm), _factors(block.post_feedforward_layernorm)
        return Norms(before, queries, keys, after, before_mlp, mixed)
    return Norms(before, queries, keys, None, after, None)


def _factors(norm: RMSNorm) -> Factors:
    return Factors(norm.gain, norm.adds_one)


def _projection(layer: nn.Module) -> Projection | None:
    """Describes a layer; None if its adapter is of a kind that C does not compute."""
    added = _added(addition(layer))
    if added is None:
        return None
    if isinstance(layer, PackedTokenTable | TokenTable):
        return Projection(layer.table, None, added)
    if isinstance(layer, PackedLinear):
        return Projection(layer.weight.packed, layer.bias, added)
    layer = cast(nn.Linear, layer)
    return Projection(layer.weight, layer.bias, added)


def _added(own: Addition | None) -> tuple[Added, ...] | None:
    """Returns the low-rank parts of an addition, in order; None if it is something else."""
    if own is None:
        return ()
    if isinstance(own, JoinedAdditions):
        first, second = map(_added, own)
        return None if first is None or second is None else (*first, *second)
    if not isinstance(own, LayerAdapter):
        return None
    parts = ((own.causal, True), (own.denoise, False))
    return tuple(Added(part.down, part.up, part.scaling, is_text) for part, is_text in parts if part is not None)
