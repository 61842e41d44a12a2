"""A canvas through all layers with three fused kernels between the matrix products: the fast form of ``network.run``.

The layers' weights are the network's own; the norms' are stacked once in the order in which the kernels take them.
``network.run`` is the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine import kernels
from engine.cache import KVCache
from engine.config import LayerConfig
from engine.kernels.norms import add_norm, head_norm_rope, merge_norm
from engine.layers.block import Block
from engine.layers.norm import RMSNorm
from engine.models.diffusion_gemma import DiffusionGemma


@dataclass(frozen=True)
class _Norms:
    """Weights of one layer's norms."""

    pre: Tensor  # (3, H): of the dense MLP, the router and the experts
    merge: Tensor  # (4, H): of the dense output, the experts', their sum, and what follows the layer


class FusedLayers:
    """All layers and the final norm of a network, for one canvas behind the text of one cache."""

    def __init__(self, network: DiffusionGemma, cache: KVCache) -> None:
        self.network, self.cache = network, cache
        self.blocks = [block for block in network.layers if isinstance(block, Block)]
        following = [*(block.input_layernorm for block in self.blocks[1:]), network.norm]
        self.norms = [_stack(block, after) for block, after in zip(self.blocks, following, strict=True)]

    def __call__(self, x: Tensor, ropes: dict[LayerConfig, tuple[Tensor, Tensor]], spans: dict[str, Tensor]) -> Tensor:
        """x (C, H) -> hidden states after the final norm (C, H). spans: int32 (2,) a kind of layer, as in ``Span``."""
        config = self.network.config
        normed = self.blocks[0].input_layernorm(x)
        for index, (block, layer, norms) in enumerate(zip(self.blocks, config.layers, self.norms, strict=True)):
            span = spans[layer.kind]
            attended = self._attention(index, block, normed, ropes[layer], span)
            x, (dense_in, router_in, experts_in) = add_norm(
                x, attended, weight_of(block.post_attention_layernorm), norms.pre, config.rms_norm_eps
            )
            weights, chosen = block.router.choose(router_in)
            sparse = block.experts(experts_in, weights, chosen)
            x, normed = merge_norm(x, block.mlp(dense_in), sparse, norms.merge, block.layer_scalar, config.rms_norm_eps)
        hidden: Tensor = normed
        return hidden

    def _attention(self, index: int, block: Block, normed: Tensor, rope: tuple[Tensor, Tensor], span: Tensor) -> Tensor:
        layer = block.self_attn
        keys, values = (buffer[0] for buffer in self.cache.buffers(index))
        raw_keys = layer.k_proj(normed)
        queries = head_norm_rope(
            layer.q_proj(normed),
            raw_keys,
            raw_keys if layer.v_proj is None else layer.v_proj(normed),
            (weight_of(layer.q_norm), weight_of(layer.k_norm)),
            rope,
            (keys, values),
            span[1:] - normed.shape[0],
            self.network.config.rms_norm_eps,
        )
        out: Tensor = layer.o_proj(kernels.attend(queries, keys, values, span))
        return out


def weight_of(norm: RMSNorm) -> Tensor:
    """The weight of a norm that has one."""
    assert norm.weight is not None
    return norm.weight


def _stack(block: Block, following: RMSNorm) -> _Norms:
    router = block.router.scale * block.router.scale.shape[0] ** -0.5
    pre = (weight_of(block.pre_feedforward_layernorm), router, weight_of(block.pre_feedforward_layernorm_2))
    merge: tuple[RMSNorm, ...] = (
        block.post_feedforward_layernorm_1,
        block.post_feedforward_layernorm_2,
        block.post_feedforward_layernorm,
        following,
    )
    return _Norms(torch.stack(pre), torch.stack([weight_of(norm) for norm in merge]))
