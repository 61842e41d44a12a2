"""A dense causal transformer: what Qwen and Ministral checkpoints hold. Knows neither sampling nor files.

Rows are attended to in the order in which they are read, and turned by their positions in the text: with the two apart,
text that is known comes before masks, wherever it stands, and its keys are those of an ordinary causal pass (WeDLM,
arXiv 2512.22737).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.layers.embedding import TokenTable
from engine.layers.kv_cache import KVCache
from engine.layers.masks import block_causal_mask
from engine.layers.norm import RMSNorm
from engine.layers.rope import cos_sin, inverse_frequencies, stretched
from engine.layers.segments import unextended
from engine.models.causal.block import CausalBlock
from engine.models.causal.config import CausalConfig
from engine.models.network import Network


class CausalNetwork(Network):
    """The network. ``run`` is the part that training shares with inference."""

    config: CausalConfig

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = TokenTable(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(CausalBlock(config, layer) for layer in config.layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = None if config.tied else nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._frequencies: dict[LayerConfig, Tensor] = {}

    @property
    def norm_weight(self) -> Tensor:
        assert self.norm.weight is not None
        return self.norm.weight

    def new_cache(self) -> KVCache:
        return KVCache(self.config, self.device, self.dtype)

    @torch.inference_mode()
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        ids = self.checked_text(ids, cache)
        return self._read(ids, cache, len(ids), None, cache.block)

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
        hidden = self._read(self.checked(ids), cache, commit, positions, 1 if is_causal else None)
        return self.head(hidden[first_logits:])

    def head(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., H) -> logits (..., V) in fp32."""
        if self.lm_head is None:
            return self.embed_tokens.logits(hidden).float()
        logits: Tensor = self.lm_head(hidden)
        return logits.float()

    def run(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache | None = None) -> Tensor:
        """All layers and the final norm: ids (B, T), positions (T,) or (B, 1, T), mask (T, S) or (B, 1, T, S)
        -> (B, T, H)."""
        x: Tensor = self.embed_tokens(ids)
        factor = 1.0 if self.config.yarn is None else self.config.yarn.attention_factor
        ropes = {
            layer: cos_sin(positions, self._frequency(layer), x.dtype, factor)
            for layer in dict.fromkeys(self.config.layers)
        }
        scale = self._query_scale(positions, x.dtype)
        for index, (block, layer) in enumerate(zip(self.layers, self.config.layers, strict=True)):
            x = block(x, ropes[layer], mask, unextended if cache is None else cache.writer(index), query_scale=scale)
        out: Tensor = self.norm(x)
        return out

    def _read(self, ids: Tensor, cache: KVCache, commit: int, positions: Tensor | None, block: int | None) -> Tensor:
        """Rows (T,) behind the cache's text -> hidden states (T, H).

        Args:
            block: as ``block_causal_mask`` takes it; None: each row sees all.
        """
        start, count = cache.length, len(ids)
        if positions is None:
            positions = torch.arange(start, start + count, device=self.device)
        if count > 0 and int(positions.max()) >= self.config.max_position_embeddings:
            most = self.config.max_position_embeddings
            raise SafelightError(f"the text grows beyond the {most} positions of this model. Shorten it")
        mask = None if block is None or count == 1 else block_causal_mask(start, count, block, self.device)
        hidden = self.run(ids[None], positions.to(self.device), mask, cache)[0]
        cache.advance(commit)
        return hidden

    def _frequency(self, layer: LayerConfig) -> Tensor:
        kept = self._frequencies.get(layer)
        if kept is None or kept.device != self.device:
            kept, yarn = inverse_frequencies(layer), self.config.yarn
            if yarn is not None:
                bounds = yarn.original, yarn.beta_fast, yarn.beta_slow
                kept = stretched(kept, layer.rope_theta, yarn.factor, *bounds, yarn.truncate)
            kept = self._frequencies[layer] = kept.to(self.device)
        return kept

    def _query_scale(self, positions: Tensor, dtype: torch.dtype) -> Tensor | None:
        """What queries at positions (..., T) are multiplied by, (..., T, 1)."""
        scaling = self.config.query_scaling
        if scaling is None:
            return None
        scale = 1 + scaling.beta * torch.log(1 + torch.floor(positions / scaling.period))
        return scale.to(dtype)[..., None]


def build(config: ModelConfig) -> CausalNetwork:
    """The network of a shape that a causal family has read; weights are not filled."""
    assert isinstance(config, CausalConfig), "another family's shape"
    return CausalNetwork(config)
