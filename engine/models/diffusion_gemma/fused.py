"""Runs a canvas, and text before it, through all layers with a dozen launches each.

This is the fast form of ``network.run``, which is the oracle. The layers' weights are the network's own. Norm weights
are stacked once in the kernels' order. A layer's 8-bit weights become adjacent in memory, so that one launch reads
those that share their inputs. A linear layer that has an adapter, or is not packed, has its own launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from engine.config import LayerConfig, ModelConfig
from engine.kernels.expert_gemm import expert_parts
from engine.kernels.linear_w8a16 import linear_w8a16
from engine.kernels.norms import add_norm, embed_rows, head_norm_rope, merge_norm, norm, rope_tables
from engine.kernels.router import MAX_EXPERTS, route
from engine.kernels.table import schemes
from engine.layers.adapted import addition, linear
from engine.layers.attention import Span
from engine.layers.embedding import TokenTable
from engine.layers.joint_rows import JointRows
from engine.layers.kv_cache import KVCache
from engine.layers.mlp import GatedMLP, SelfConditioning
from engine.layers.norm import RMSNorm
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedWeight
from engine.layers.rope import inverse_frequencies
from engine.models.diffusion_gemma.block import Block
from engine.quant import INT8, Packed


class FusedNetwork(Protocol):
    """The parts of a network that are run here; ``DiffusionGemma`` is one."""

    config: ModelConfig
    embed_tokens: TokenTable
    layers: nn.ModuleList
    norm: RMSNorm
    self_conditioning: SelfConditioning

    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def embed_scale(self) -> float: ...


@dataclass(frozen=True, eq=False)
class _Layer:
    """The inputs of one layer's kernels."""

    block: Block
    experts: PackedExperts | None  # None: not packed, or in a scheme that the kernels do not know
    projections: Packed | None  # of queries, keys and, if the layer has them, values; None: each by itself
    gate_up: Packed | None  # of the dense MLP
    pre: Tensor  # (3, H), norms' weights: of the dense MLP, the router and the experts
    merge: Tensor  # (4, H): of the dense output, the experts', their sum, and the norm after the layer
    scalars: Tensor  # (2,): of the layer's output, for text and for a canvas


Ropes = dict[LayerConfig, tuple[Tensor, Tensor]]
"""Cosines and sines (T, D) for each kind of layer."""


@dataclass(frozen=True, eq=False)
class RunInPass:
    """The layers' inputs for one run in a pass of several: its rows are text, then a canvas."""

    ropes: Ropes
    spans: dict[str, Span]  # one a kind of layer
    cache: KVCache


class FusedLayers:
    """All layers and the final norm of a network."""

    def __init__(self, network: FusedNetwork) -> None:
        self._network = weakref.ref(network)  # weak: the network holds this, and cycles hold memory
        blocks = [block for block in network.layers if isinstance(block, Block)]
        following = [*(block.input_layernorm for block in blocks[1:]), network.norm]
        for linears in (_linears(network.self_conditioning), *(_linears(block) for block in blocks)):
            _gather(linears)
        self.layers = [_layer(block, after) for block, after in zip(blocks, following, strict=True)]
        self.conditioning = _gate_up(network.self_conditioning)
        self.frequencies = {
            layer: inverse_frequencies(layer).to(network.device) for layer in dict.fromkeys(network.config.layers)
        }

    @property
    def network(self) -> FusedNetwork:
        """The network; the caller keeps it alive."""
        network = self._network()
        assert network is not None
        return network

    def embed(self, ids: Tensor, soft: Tensor, text_rows: int = 0) -> Tensor:
        """Embeds token ids (T,), the first ``text_rows`` text, the rest a canvas -> (T, H) for ``__call__``.

        soft: (T - text_rows, H), the canvas's soft embedding; zeros in its first step.
        """
        network, eps = self.network, self.network.config.rms_norm_eps
        mlp = network.self_conditioning
        fed = self.dense(mlp, self.conditioning, norm(soft, mlp.pre_norm.gain, eps), 0)
        return embed_rows(ids, network.embed_tokens.table, fed, text_rows, network.embed_scale, eps)

    def ropes(self, start: Tensor, first: int, count: int) -> Ropes:
        """Returns ``network.ropes`` for ``count`` positions from start + first on; start int64 (1,) on the device."""
        dtype = self.network.dtype
        return {layer: rope_tables(start, first, count, own, dtype) for layer, own in self.frequencies.items()}

    def __call__(self, x: Tensor, ropes: Ropes, spans: dict[str, Span], cache: KVCache) -> Tensor:
        """Runs all layers: x (T, H) -> hidden states after the final norm (T, H); writes to the cache's buffers.

        spans: one a kind of layer, of one sequence, with equal ``text_rows``.
        """
        config, eps = self.network.config, self.network.config.rms_norm_eps
        normed = norm(x, self.layers[0].block.input_layernorm.gain, eps)
        for index, (layer, kind) in enumerate(zip(self.layers, config.layers, strict=True)):
            span = spans[kind.kind]
            attended = self.attention(layer, normed, ropes[kind], span, cache.buffers(index))
            x, normed = self.after(layer, x, attended, span.text_rows)
        return normed

    def together(self, x: Tensor, runs: Sequence[RunInPass], rows: JointRows) -> Tensor:
        """Runs all layers with rows of several runs in x: weights are read once, and each run has its own cache."""
        config, eps = self.network.config, self.network.config.rms_norm_eps
        normed = norm(x, self.layers[0].block.input_layernorm.gain, eps)
        for index, (layer, kind) in enumerate(zip(self.layers, config.layers, strict=True)):
            projected = [rows.apart(part) for part in self.projected(layer, normed, rows.text_rows)]
            attended = []
            for run, parts in zip(runs, zip(*projected, strict=True), strict=True):
                span, buffers = run.spans[kind.kind], run.cache.buffers(index)
                queries = self.turned(layer, list(parts), run.ropes[kind], span, buffers)
                attended.append(span.attend(queries[None], *buffers)[0])
            out = linear(layer.block.self_attn.o_proj, rows.together(attended), rows.text_rows)
            x, normed = self.after(layer, x, out, rows.text_rows)
        return normed

    def after(self, layer: _Layer, x: Tensor, attended: Tensor, text_rows: int) -> tuple[Tensor, Tensor]:
        """Runs the rest of a layer after attention, which takes each row by itself.

        Returns:
            The sum after the layer and the norm that follows it, (T, H) each.
        """
        block, eps = layer.block, self.network.config.rms_norm_eps
        x, (dense_in, router_in, experts_in) = add_norm(
            x, attended, block.post_attention_layernorm.gain, layer.pre, eps, split=layer.experts is not None
        )
        # Before the experts, whose parts are the largest thing held.
        dense = self.dense(block.mlp, layer.gate_up, dense_in, text_rows)
        sparse = self.experts(layer, router_in, experts_in)
        return merge_norm(x, dense, sparse, layer.merge, layer.scalars, text_rows, eps)

    def attention(
        self, layer: _Layer, normed: Tensor, rope: tuple[Tensor, Tensor], span: Span, buffers: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Runs one layer's attention: normed (T, H) -> (T, H)."""
        queries = self.queries(layer, normed, rope, span, buffers)
        return linear(layer.block.self_attn.o_proj, span.attend(queries[None], *buffers)[0], span.text_rows)

    def queries(
        self, layer: _Layer, normed: Tensor, rope: tuple[Tensor, Tensor], span: Span, buffers: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Returns queries (heads, T, D) of normed (T, H); keys and values go into the cache's buffers."""
        return self.turned(layer, self.projected(layer, normed, span.text_rows), rope, span, buffers)

    def projected(self, layer: _Layer, normed: Tensor, text_rows: int) -> list[Tensor]:
        """Projects normed (T, H) to queries, keys and, if the layer has them, values (T, heads * D)."""
        linears = _projections(layer.block)
        if layer.projections is None or _adapted(linears):
            return [linear(one, normed, text_rows) for one in linears]
        sizes = [one.weight.shape[0] for one in linears]
        return list(torch.split(linear_w8a16(normed, layer.projections), sizes, dim=1))

    def turned(
        self,
        layer: _Layer,
        parts: list[Tensor],
        rope: tuple[Tensor, Tensor],
        span: Span,
        buffers: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Norms and rotates one run's projected rows -> its queries (heads, T, D), as ``queries``."""
        own = layer.block.self_attn
        return head_norm_rope(
            parts[0],
            parts[1],
            parts[-1],  # a full-attention layer's values are its raw keys
            (own.q_norm.gain, own.k_norm.gain),
            rope,
            (buffers[0][0], buffers[1][0]),  # without the batch
            span.bounds[0, 1:],
            self.network.config.rms_norm_eps,
        )

    def dense(self, mlp: GatedMLP, gate_up: Packed | None, x: Tensor, text_rows: int) -> Tensor:
        """Runs a gated MLP: x (T, H), of which the first ``text_rows`` are text -> (T, H)."""
        linears: list[nn.Linear] = [mlp.gate_proj, mlp.up_proj]
        if gate_up is None or _adapted(linears):
            return GatedMLP.forward(mlp, x, text_rows)
        return linear(mlp.down_proj, linear_w8a16(x, gate_up, gated=True), text_rows)

    def experts(self, layer: _Layer, scaled: Tensor, x: Tensor) -> Tensor:
        """Runs routed experts, weighted: K parts of each token (T * K, H), or their sum (T, H).

        Args:
            scaled: (T, H), normed and scaled for the router. x: (T, H), for packed experts in ``split_pairs`` order.
        """
        router = layer.block.router
        if router.proj.weight.shape[0] <= MAX_EXPERTS:
            weights, chosen = route(scaled, router.proj.weight, router.per_expert_scale, router.top_k)
        else:
            weights, chosen = router.choose(scaled)
        if layer.experts is None:
            return layer.block.experts(x, weights, chosen)
        both = layer.experts.gate_up_proj.packed, layer.experts.down_proj.packed
        return expert_parts(x, weights.contiguous(), chosen, *both)


def _layer(block: Block, following: RMSNorm) -> _Layer:
    router = block.router.scale * block.router.scale.shape[0] ** -0.5
    pre = (block.pre_feedforward_layernorm.gain, router, block.pre_feedforward_layernorm_2.gain)
    merge: tuple[RMSNorm, ...] = (
        block.post_feedforward_layernorm_1,
        block.post_feedforward_layernorm_2,
        block.post_feedforward_layernorm,
        following,
    )
    experts: nn.Module = block.experts
    has_kernel = isinstance(experts, PackedExperts) and experts.gate_up_proj.scheme in schemes("experts", "triton")
    return _Layer(
        block=block,
        experts=experts if has_kernel and isinstance(experts, PackedExperts) else None,
        projections=_joined(_projections(block)),
        gate_up=_gate_up(block.mlp),
        pre=torch.stack(pre),
        merge=torch.stack([norm.gain for norm in merge]),
        scalars=torch.cat([block.causal_layer_scalar, block.layer_scalar]),
    )


def _projections(block: Block) -> list[nn.Linear]:
    own = block.self_attn
    return [own.q_proj, own.k_proj, *([] if own.v_proj is None else [own.v_proj])]


def _gate_up(mlp: GatedMLP) -> Packed | None:
    return _joined([mlp.gate_proj, mlp.up_proj])


def _linears(part: Block | GatedMLP) -> list[nn.Linear]:
    """Returns layers in memory order: those that share their inputs are neighbours."""
    if isinstance(part, GatedMLP):
        return [part.gate_proj, part.up_proj, part.down_proj]
    return [*_projections(part), part.self_attn.o_proj, *_linears(part.mlp)]


def _gather(linears: list[nn.Linear]) -> None:
    """Moves the buffers of a layer's 8-bit weights into one allocation, in this order.

    All at once: the gaps around any that were left in place would be lost memory. Needs a temporary copy of these
    weights. Names, shapes and values do not change.
    """
    weights, moved = _eight_bit(linears), False
    for part in ("codes", "scales") if weights else ():
        buffers: list[Tensor] = [getattr(weight, part) for weight in weights]
        if all(_is_behind(one, other) for one, other in pairwise(buffers)):
            continue
        moved = True
        with torch.inference_mode(False), torch.no_grad():  # these tensors are used outside inference mode, too
            whole = torch.cat([buffer.flatten() for buffer in buffers])
            for weight, own in zip(weights, torch.split(whole, [buffer.numel() for buffer in buffers]), strict=True):
                setattr(weight, part, own.view(getattr(weight, part).shape))
    if moved:
        torch.cuda.empty_cache()  # else the freed memory stays allocated during the next layer's copy


def _is_behind(one: Tensor, other: Tensor) -> bool:
    """Returns True if a buffer begins in memory where another ends."""
    together = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return together and bool(one.storage_offset() + one.numel() == other.storage_offset())


def _joined(linears: list[nn.Linear]) -> Packed | None:
    """Returns gathered weights (out, in) with the same inputs as one: their rows concatenated.

    None if they are not packed in 8 bits.
    """
    weights = _eight_bit(linears)
    if len(weights) < len(linears):
        return None
    rows, first = sum(weight.shape[0] for weight in weights), weights[0]
    codes = first.codes.as_strided((rows, first.shape[1]), (first.shape[1], 1))
    return Packed(codes, first.scales.as_strided((1, rows), (rows, 1)), first.scheme)


def _eight_bit(linears: list[nn.Linear]) -> list[PackedWeight]:
    modules: list[nn.Module] = [*linears]
    weights = [module.weight for module in modules if isinstance(module, PackedLinear)]
    return [weight for weight in weights if weight.scheme == INT8]


def _adapted(linears: list[nn.Linear]) -> bool:
    """Returns True if something is added to a layer's output."""
    return any(addition(one) is not None for one in linears)
