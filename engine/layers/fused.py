"""A canvas, and text before it, through all layers with three fused kernels between the matrix products.

The fast form of ``network.run``, which is the oracle. The layers' weights are the network's own; the norms' are stacked
once in the order in which the kernels take them.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import LayerConfig
from engine.kernels.norms import add_norm, head_norm_rope, merge_norm
from engine.layers.attention import Span
from engine.layers.block import Block
from engine.layers.norm import RMSNorm
from engine.models.diffusion_gemma import DiffusionGemma


@dataclass(frozen=True)
class _Norms:
    """Weights of one layer's norms."""

    pre: Tensor  # (3, H): of the dense MLP, the router and the experts
    merge: Tensor  # (4, H): of the dense output, the experts', their sum, and what follows the layer
    scalars: Tensor  # (2,): of the layer's output, for text and for a canvas


class FusedLayers:
    """All layers and the final norm of a network."""

    def __init__(self, network: DiffusionGemma) -> None:
        self._network = weakref.ref(network)  # which keeps this: a circle would hold its memory until it is collected
        self.blocks = [block for block in network.layers if isinstance(block, Block)]
        following = [*(block.input_layernorm for block in self.blocks[1:]), network.norm]
        self.norms = [_stack(block, after) for block, after in zip(self.blocks, following, strict=True)]

    @property
    def network(self) -> DiffusionGemma:
        """The network; the caller keeps it alive."""
        network = self._network()
        assert network is not None
        return network

    def __call__(
        self, x: Tensor, ropes: dict[LayerConfig, tuple[Tensor, Tensor]], spans: dict[str, Span], cache: KVCache
    ) -> Tensor:
        """x (T, H) -> hidden states after the final norm (T, H); keys and values go into the cache's buffers.

        spans: one a kind of layer, alike in ``text_rows``.
        """
        config = self.network.config
        self.network.rows.text = next(iter(spans.values())).text_rows
        normed = self.blocks[0].input_layernorm(x)
        for index, (block, layer, norms) in enumerate(zip(self.blocks, config.layers, self.norms, strict=True)):
            span = spans[layer.kind]
            attended = self.attention(block, normed, ropes[layer], span, cache.buffers(index))
            x, (dense_in, router_in, experts_in) = add_norm(
                x, attended, weight_of(block.post_attention_layernorm), norms.pre, config.rms_norm_eps
            )
            weights, chosen = block.router.choose(router_in)
            sparse = block.experts(experts_in, weights, chosen)
            dense = block.mlp(dense_in)
            x, normed = merge_norm(x, dense, sparse, norms.merge, norms.scalars, span.text_rows, config.rms_norm_eps)
        hidden: Tensor = normed
        return hidden

    def attention(
        self,
        block: Block,
        normed: Tensor,
        rope: tuple[Tensor, Tensor],
        span: Span,
        buffers: tuple[Tensor, Tensor],
    ) -> Tensor:
        """One layer's attention: normed (T, H) -> (T, H)."""
        layer = block.self_attn
        keys, values = (buffer[0] for buffer in buffers)
        raw_keys = layer.k_proj(normed)
        queries = head_norm_rope(
            layer.q_proj(normed),
            raw_keys,
            raw_keys if layer.v_proj is None else layer.v_proj(normed),
            (weight_of(layer.q_norm), weight_of(layer.k_norm)),
            rope,
            (keys, values),
            span.bounds[1:] - normed.shape[0],
            self.network.config.rms_norm_eps,
        )
        out: Tensor = layer.o_proj(span.attend(queries, keys, values))
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
    scalars = torch.cat([block.causal_layer_scalar, block.layer_scalar])
    return _Norms(torch.stack(pre), torch.stack([weight_of(norm) for norm in merge]), scalars)
