"""DiffusionGemma: one set of weights, two modes, and the tower that reads images. Knows neither sampling nor files.

*Prefill* is causal and appends keys and values to the cache. *Denoise* is bidirectional over the canvas, and reads the
cache without changing it. Parameter names are the checkpoint's, under ``model.decoder.``.

Prefill by kernels uses the step's (``fused``), in passes of text alone; the plain path is its oracle.

Floor of 32 768 tokens of the 26B: experts 94, linear layers 108, attention of full layers 88 and of sliding ones 14
TFLOP, 303 in all; H100 and H200 0.38 s, RTX 4090 1.8 s, RTX 5090 1.4 s. The weights are read once a piece, 465 GB in 32
pieces: 0.16, 0.11, 0.46 and 0.26 s. Predicted, not measured, by the rates predicted for each kernel: H100 1.4 s, H200
1.3 s, RTX 4090 3.6 s, RTX 5090 2.9 s, a third of it in experts, whose tiles of 64 tokens are a third empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engine import kernels
from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.layers.attention import Extend, ImageSpan, Span
from engine.layers.embedding import TokenTable
from engine.layers.images import ImageRows
from engine.layers.kv_cache import KERNEL_PIECE, PIECE, KVCache
from engine.layers.masks import causal_mask, image_mask
from engine.layers.mlp import SelfConditioning
from engine.layers.norm import RMSNorm
from engine.layers.rope import cos_sin, inverse_frequencies
from engine.models.diffusion_gemma.block import Block
from engine.models.network import Network
from engine.models.vision.tower import VisionTower

if TYPE_CHECKING:
    from engine.models.diffusion_gemma.fused import FusedLayers


class DiffusionGemma(Network):
    """The network. ``prefill`` and ``denoise`` serve inference; ``run`` is the part that training shares with them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = TokenTable(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, layer) for layer in config.layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_conditioning = SelfConditioning(config)
        self.vision = VisionTower(config.vision, config.hidden_size) if config.vision is not None else None
        self._frequencies: dict[LayerConfig, Tensor] = {}
        self._fused: tuple[FusedLayers, torch.device, torch.dtype] | None = None
        # The reference keeps sqrt(H) in the table's type, which rounds it in bf16.
        root = torch.tensor(config.hidden_size**0.5, dtype=torch.float64, device="cpu")
        self._scales = {dtype: root.to(dtype).item() for dtype in (torch.float32, torch.bfloat16, torch.float64)}

    def ropes(self, positions: Tensor, dtype: torch.dtype) -> dict[LayerConfig, tuple[Tensor, Tensor]]:
        """Returns cosines and sines (T, D) of positions (T,) for each kind of layer."""
        return {layer: cos_sin(positions, self._frequency(layer), dtype) for layer in dict.fromkeys(self.config.layers)}

    @property
    def embed_scale(self) -> float:
        """sqrt(H), rounded to the number type."""
        return self._scales[self.dtype]

    def new_cache(self) -> KVCache:
        piece = KERNEL_PIECE if kernels.run_on(self.device, self.dtype) else PIECE
        return KVCache(self.config, self.device, self.dtype, piece)

    def fused(self) -> FusedLayers:
        """Returns the layers by kernels; made again if the network has moved, and each time while it is trained."""
        place = self.device, self.dtype
        if self._fused is None or self._fused[1:] != place or self.norm_weight.requires_grad:
            from engine.models.diffusion_gemma.fused import FusedLayers  # needs Triton

            self._fused = FusedLayers(self), *place
        return self._fused[0]

    @torch.inference_mode()
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Appends tokens as ``Network.prefill``, causally.

        Uses kernels where they run, in pieces: the memory of a pass then does not depend on the text before it. Rows of
        an image in the cache replace the tokens' embeddings, and its tokens attend to one another.
        """
        ids = self.checked_text(ids, cache)
        count, by_kernels = ids.shape[0], kernels.run_on(self.device, self.dtype)
        if by_kernels:
            cache.reserve(cache.length + count)
        append = self._append_by_kernels if by_kernels else self._append
        pieces = torch.split(ids, cache.pieces(count, 0 if by_kernels else count))
        parts = [append(piece, cache) for piece in pieces]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

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
        """Decodes as ``Network.decode``, causal and in order: prefill, and the head on it."""
        if positions is not None or not is_causal:
            raise SafelightError("this model reads text causally and in order; a canvas is what it denoises")
        start = cache.length
        hidden = self.prefill(ids, cache)
        if commit < len(ids):
            cache.truncate(start + commit)
        return self.head(hidden[first_logits:])

    @torch.inference_mode()
    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Tensor | None = None) -> Tensor:
        """Predicts every canvas position at once; the cache does not change.

        Args:
            canvas: token ids (C,).
            cache: the committed text; read only.
            self_conditioning_logits: temperature-scaled logits (C, V) of the previous step; None on the first.

        Returns:
            Soft-capped logits (C, V) in fp32.
        """
        canvas = self.checked(canvas)
        positions = torch.arange(cache.length, cache.length + canvas.shape[0], device=self.device)
        soft = None
        if self_conditioning_logits is not None:
            soft = self.fed_back(self_conditioning_logits)[None]
        x = self.self_conditioning(self.embed(canvas)[None], soft)
        extends = [cache.writer(index) for index in range(len(self.layers))]
        return self.head(self.run(x, positions, {}, extends)[0])

    def embed(self, ids: Tensor) -> Tensor:
        """Embeds token ids (...) -> embeddings times sqrt(H), (..., H)."""
        embedded: Tensor = self.embed_tokens(ids)
        return embedded * self.embed_scale

    def fed_back(self, logits: Tensor) -> Tensor:
        """Returns the soft embedding (C, H) of a step's temperature-scaled logits (C, V)."""
        return self.soft_embedding(torch.softmax(logits, dim=-1, dtype=torch.float32))

    def soft_embedding(self, probabilities: Tensor) -> Tensor:
        """Returns the expected embedding (..., H) under (..., V) probabilities."""
        mean: Tensor = self.embed_tokens.expectation(probabilities)
        return mean * self.embed_scale

    def head(self, hidden: Tensor) -> Tensor:
        """Returns the soft-capped logits (..., V) in fp32 of hidden states (..., H)."""
        cap = self.config.final_logit_softcapping
        logits: Tensor = self.embed_tokens.logits(hidden)
        return torch.tanh(logits.float() / cap) * cap

    def run(
        self,
        x: Tensor,
        positions: Tensor,
        masks: Mapping[str, Tensor | Span | None],
        extends: list[Extend],
        text_rows: int = 0,
    ) -> Tensor:
        """Runs all layers and the final norm: x (B, T, H), positions (T,), a mask a layer kind -> (B, T, H).

        The first ``text_rows`` of the T are text, the rest a canvas.
        """
        ropes = self.ropes(positions, x.dtype)
        for block, layer, extend in zip(self.layers, self.config.layers, extends, strict=True):
            x = block(x, ropes[layer], masks.get(layer.kind), extend, text_rows)
        return self.norm(x)

    def causal_masks(self, start: int, count: int) -> dict[str, Tensor]:
        """Returns a mask for each kind of layer: what ``count`` tokens after ``start`` others attend to."""
        return {
            layer.kind: causal_mask(start, count, self._window(layer), self.device)
            for layer in dict.fromkeys(self.config.layers)
        }

    def image_masks(self, start: int, count: int) -> dict[str, Tensor | None]:
        """Returns the masks of an image's tokens, as ``causal_masks``."""
        return {
            layer.kind: image_mask(start, count, self._window(layer), self.device)
            for layer in dict.fromkeys(self.config.layers)
        }

    def _embedded(self, ids: Tensor, image: ImageRows | None) -> Tensor:
        """Returns the layers' input (T, H) for token ids (T,) of one piece."""
        if image is None:
            return self.embed(ids)
        if image.rows.shape != (len(ids), self.config.hidden_size):
            wanted = f"{len(ids)} tokens of {self.config.hidden_size} numbers"
            raise SafelightError(f"the image has rows of the shape {tuple(image.rows.shape)}; they stand for {wanted}")
        return image.rows.to(self.device, self.dtype)

    def _append(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Prefills one piece (T,)."""
        start, count, image = cache.length, ids.shape[0], cache.image
        positions = torch.arange(start, start + count, device=self.device)
        extends = [cache.writer(index) for index in range(len(self.layers))]
        masks = self.causal_masks(start, count) if image is None else self.image_masks(start, count)
        hidden = self.run(self._embedded(ids, image)[None], positions, masks, extends, text_rows=count)[0]
        cache.advance(count)
        return hidden

    def _append_by_kernels(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Prefills one piece (T,) by kernels: without masks; keys and values are written and read in their buffers."""
        start, count, image = cache.length, ids.shape[0], cache.image
        places, spans = cache.spans(0, count), dict[str, Span]()
        masks = {} if image is None else self.image_masks(start, count)
        for layer in dict.fromkeys(self.config.layers):
            bounds = torch.tensor([places[layer.kind]], dtype=torch.int32).to(self.device)
            spans[layer.kind] = (
                Span(bounds, count, self._window(layer))
                if image is None
                else ImageSpan(bounds, count, None, places[layer.kind][1], masks[layer.kind])
            )
        x = self._embedded(ids, image)
        positions = torch.arange(start, start + count, device=self.device)
        hidden = self.fused()(x, self.ropes(positions, x.dtype), spans, cache)
        cache.advance(count)
        return hidden

    def _window(self, layer: LayerConfig) -> int | None:
        """Returns the tokens that text sees in a layer, itself included; None: all."""
        return self.config.sliding_window if layer.is_sliding else None

    def _frequency(self, layer: LayerConfig) -> Tensor:
        kept = self._frequencies.get(layer)
        if kept is None or kept.device != self.device:
            kept = self._frequencies[layer] = inverse_frequencies(layer).to(self.device)
        return kept
