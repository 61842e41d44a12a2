"""A causal transformer, dense or with experts, for all families but DiffusionGemma. Knows neither sampling nor files.

Rows attend in the order in which they are read, and are rotated by their positions in the text. As the two are
separate, known text can come before masks, wherever it stands, and its keys are those of an ordinary causal pass
(WeDLM, arXiv 2512.22737).

On a processor passes of few rows are one call of C for all layers, where that is possible.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from engine.adapters.lora import JoinedAdditions, LayerAdapter
from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.kernels import native
from engine.kernels.few_rows import DenseLayers, Factors, LayerWeights, Norms, Visible
from engine.kernels.native.matrices import UNIT, Added, Projection, group_of
from engine.layers.adapted import Addition, addition, additions_set
from engine.layers.attention import Extend, Reach
from engine.layers.embedding import TokenTable
from engine.layers.joint_rows import unextended
from engine.layers.kv_cache import KVCache
from engine.layers.masks import CAUSAL, Blocks, block_causal_mask, causal_mask
from engine.layers.mlp import GatedMLP
from engine.layers.norm import RMSNorm
from engine.layers.packed_linear import PackedLinear, PackedTokenTable
from engine.layers.rope import cos_sin, inverse_frequencies, stretched, stretched_as_llama3
from engine.models.causal.block import CausalBlock, SandwichBlock, norm
from engine.models.causal.config import CausalConfig, LinearScaling, Llama3Scaling, Yarn
from engine.models.network import Network

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
            entry = next((made for made in self._made if all(map(operator.is_, made[0], own))), None)
            if entry is None:
                with torch.no_grad():
                    entry = own, self._make()
            self._made = [entry, *(made for made in self._made if made is not entry)][:2]
        return self._made[0][1]

    def _make(self) -> DenseLayers | None:
        kinds = list(dict.fromkeys(self._config.layers))
        layers = list[LayerWeights]()
        for block, layer in zip(self._blocks, self._config.layers, strict=True):
            weights = _layer(block, layer, kinds.index(layer))
            if weights is None:
                return None
            layers.append(weights)
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
    all_parts = [_projection(part) for part in _linears(block)]
    projections = tuple(part for part in all_parts if part is not None)
    if len(projections) < len(all_parts):
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


class Writers(Protocol):
    """Keeps the keys and values of a pass: a ``KVCache``, or one of training."""

    def writer(self, index: int) -> Extend:
        """Returns ``extend`` for a layer."""


class CausalNetwork(Network):
    """The network. ``run`` is the part that training shares with inference."""

    config: CausalConfig

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = TokenTable(config.vocab_size, config.hidden_size)
        block = SandwichBlock if config.norms_results else CausalBlock
        self.layers = nn.ModuleList(block(config, layer) for layer in config.layers)
        self.norm = norm(config, config.hidden_size)
        self.lm_head = None if config.tied else nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._frequencies: dict[LayerConfig, Tensor] = {}
        self._in_c: LayersInC | None = None

    def new_cache(self) -> KVCache:
        return KVCache(self.config, self.device, self.dtype)

    @torch.inference_mode()
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        ids = self.checked_text(ids, cache)
        return self._read(ids, cache, len(ids), None, cache.blocks, len(ids))[0].to(self.dtype)

    @torch.inference_mode()
    def decode(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        if not 0 <= commit <= len(ids):
            raise SafelightError(f"{commit} of {len(ids)} rows cannot become text")
        blocks = CAUSAL if is_causal else None
        return self._read(self.checked(ids), cache, commit, positions, blocks, first_logits)[1]

    def head(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) in fp32 of hidden states (..., H)."""
        if self.lm_head is None:
            return self.embed_tokens.logits(hidden).float()
        logits: Tensor = self.lm_head(hidden)
        return logits.float()

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Reach | None,
        cache: Writers | None = None,
        near_mask: Tensor | Reach | None = None,
    ) -> Tensor:
        """Runs all layers and the final norm.

        Args:
            ids: token ids (B, T).
            positions: (T,) or (B, 1, T).
            mask: of full layers, (T, S) or (B, 1, T, S), True where allowed; None allows all.
            near_mask: the mask of sliding layers.

        Returns:
            Hidden states (B, T, H).
        """
        x = self._embedded(ids)
        ropes = {layer: self._rope(layer, positions, x.dtype) for layer in dict.fromkeys(self.config.layers)}
        scale = self._query_scale(positions, x.dtype)
        for index, (block, layer) in enumerate(zip(self.layers, self.config.layers, strict=True)):
            extend = unextended if cache is None else cache.writer(index)
            x = block(x, ropes[layer], near_mask if layer.is_sliding else mask, extend, scale)
        return self.norm(x)

    def _read(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        positions: Tensor | None,
        blocks: Blocks | None,
        first_logits: int,
    ) -> tuple[Tensor, Tensor]:
        """Reads rows (T,) after the cache's text.

        Args:
            blocks: in which they are read; None: each row sees all.
            first_logits: as ``decode`` takes it.

        Returns:
            Hidden states (T, H), and logits (T - first_logits, V) in fp32.
        """
        start, count = cache.length, len(ids)
        if positions is None:
            positions = torch.arange(start, start + count, device=self.device)
        if count > 0 and int(positions.max()) >= self.config.max_position_embeddings:
            most = self.config.max_position_embeddings
            raise SafelightError(f"the text grows beyond the {most} positions of this model. Shorten it")
        masks = dict[int | None, Tensor | Reach]()
        if blocks is not None and count > 1:
            windows = {self.config.sliding_window if layer.is_sliding else None for layer in self.config.layers}
            assert blocks.size == 1 or windows == {None}, "only models with full attention in all layers have blocks"
            masks = {window: causal_mask(start, count, window, self.device) for window in windows - {None}}
            masks[None] = block_causal_mask(start, count, blocks, self.device)
        near = masks.get(self.config.sliding_window)
        layers = self._layers_in_c() if count <= MAX_ROWS else None
        if layers is None:
            hidden = self.run(ids[None], positions.to(self.device), masks.get(None), cache, near)[0]
            logits = self.head(hidden[first_logits:]) if first_logits < count else hidden.new_empty(0)
        else:
            hidden, logits = self._run_in_c(layers, ids, positions, masks.get(None), near, cache, first_logits)
        cache.advance(commit)
        return hidden, logits

    def runs_in_c(self, rows: int) -> bool:
        return 0 < rows <= MAX_ROWS and self._layers_in_c() is not None

    def _layers_in_c(self) -> DenseLayers | None:
        """Returns the layers for passes of few rows in C, if there are such."""
        if self.device.type != "cpu" or self.dtype not in (torch.float32, torch.bfloat16):
            return None
        if self._in_c is None:
            head = self.embed_tokens if self.lm_head is None else self.lm_head
            self._in_c = LayersInC(self.config, self.layers, self.norm, head)
        return self._in_c.find()

    def _run_in_c(
        self,
        layers: DenseLayers,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Reach | None,
        near_mask: Tensor | Reach | None,
        cache: KVCache,
        first_logits: int,
    ) -> tuple[Tensor, Tensor]:
        """Runs a pass as ``run`` and ``head`` -> hidden states (T, H), logits (T - first_logits, V), fp32."""
        spans, seen = cache.spans(len(ids)), list[Visible]()
        for layer in dict.fromkeys(self.config.layers):
            own = near_mask if layer.is_sliding else mask
            first, end = spans[layer.kind]
            visible = cast(Tensor | None, own)
            seen.append(Visible(*self._rope(layer, positions, torch.float32), first, end - len(ids), visible))
        scale = self._query_scale(positions, torch.float32)
        buffers = [cache.buffers(index) for index in range(len(self.layers))]
        row_scales = None if scale is None else scale.flatten()
        threads = self.threads_in_c or torch.get_num_threads()
        return layers.run(self._embedded(ids).float(), seen, buffers, first_logits, threads, row_scales)

    def _embedded(self, ids: Tensor) -> Tensor:
        """Returns the embeddings (..., H) of token ids (...)."""
        x: Tensor = self.embed_tokens(ids)
        if self.config.scales_embeddings:  # the reference keeps the root in the table's type, which rounds it in bf16
            x = x * torch.tensor(self.config.hidden_size**0.5, dtype=x.dtype)
        return x

    def _rope(self, layer: LayerConfig, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cosines and sines of positions (..., T) in layers of one kind, two of (..., T, D)."""
        scaling = self.config.scaling_of(layer)
        return cos_sin(
            positions, self._frequency(layer), dtype, scaling.attention_factor if isinstance(scaling, Yarn) else 1.0
        )

    def _frequency(self, layer: LayerConfig) -> Tensor:
        kept = self._frequencies.get(layer)
        if kept is None or kept.device != self.device:
            kept = inverse_frequencies(replace(layer, head_dim=self.config.rotated or layer.head_dim))
            match self.config.scaling_of(layer):
                case Yarn() as yarn:
                    bounds = yarn.original, yarn.beta_fast, yarn.beta_slow
                    kept = stretched(kept, layer.rope_theta, yarn.factor, *bounds, yarn.truncate)
                case Llama3Scaling(factor, original, low, high):
                    kept = stretched_as_llama3(kept, factor, original, low, high)
                case LinearScaling(factor):
                    kept = kept / factor
            kept = self._frequencies[layer] = kept.to(self.device)
        return kept

    def _query_scale(self, positions: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Returns the factor of queries at positions (..., T), (..., T, 1)."""
        scaling = self.config.query_scaling
        if scaling is None:
            return None
        scale = 1 + scaling.beta * torch.log(1 + torch.floor(positions / scaling.period))
        return scale.to(dtype)[..., None]


def build(config: ModelConfig) -> CausalNetwork:
    """Builds the network of a shape that a causal family has read; weights are not filled."""
    assert isinstance(config, CausalConfig), "another family's shape"
    return CausalNetwork(config)
