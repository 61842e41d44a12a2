"""Texts and canvases of several sequences in one pass: all their rows go through the layers together.

Only attention is separate for each sequence. The results equal those of each alone, except for the last digits;
``joining`` knows when they are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layers.kv_cache import KVCache
from engine.layers.segments import Segment, Segments, unextended
from engine.models.diffusion_gemma.network import DiffusionGemma


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a sequence adds to a pass: tokens (T,) after its cache's text."""

    ids: Tensor
    cache: KVCache
    self_conditioning_logits: Tensor | None = None  # of a canvas, as ``denoise`` takes them
    text: Tensor | None = None  # of a canvas: tokens (T,) before it, which are committed in the same pass

    @property
    def behind(self) -> int:
        """Tokens between the cache's text and these."""
        return 0 if self.text is None else len(self.text)


@torch.inference_mode()
def joint_pass(network: DiffusionGemma, texts: Sequence[Rows], canvases: Sequence[Rows]) -> list[Tensor]:
    """Runs ``prefill`` of the texts, including those before a canvas, and ``denoise`` of the canvases.

    Each has its own cache, except that a canvas shares one with the text before it.

    Returns:
        Logits (C, V) fp32 of each canvas, views of one tensor.

    Raises:
        SafelightError: as those two, before any cache has grown.
    """
    # Those without logits first: their embeddings skip the MLP of self-conditioning.
    order = sorted(range(len(canvases)), key=lambda place: canvases[place].self_conditioning_logits is not None)
    texts = [*texts, *(Rows(rows.text, rows.cache) for rows in canvases if rows.text is not None)]
    ids = [network.checked_text(rows.ids, rows.cache) for rows in texts]
    ids += [network.checked(canvases[place].ids) for place in order]
    each = [*texts, *(canvases[place] for place in order)]
    text_rows = sum(len(part) for part in ids[: len(texts)])

    x = _embedded(network, torch.cat(ids), text_rows, [rows.self_conditioning_logits for rows in each[len(texts) :]])
    for rows in canvases:
        if rows.behind:
            rows.cache.spans(len(rows.ids), rows.behind)
    starts = [rows.cache.length + rows.behind for rows in each]
    places = [torch.arange(start, start + len(part)) for start, part in zip(starts, ids, strict=True)]
    ropes = network.ropes(torch.cat(places).to(network.device), x.dtype)
    masks = [network.causal_masks(start, len(part)) for start, part in zip(starts, ids[: len(texts)], strict=False)]
    for index, (block, layer) in enumerate(zip(network.layers, network.config.layers, strict=True)):
        segments = [
            Segment(
                len(part),
                masks[place][layer.kind] if place < len(texts) else None,
                rows.cache.writer(index, rows.behind),
            )
            for place, (rows, part) in enumerate(zip(each, ids, strict=True))
        ]
        x = block(x, ropes[layer], Segments(tuple(segments)), unextended, text_rows)
    for rows, part in zip(texts, ids, strict=False):
        rows.cache.advance(len(part))
    if not canvases:
        return []
    sizes = [len(part) for part in ids[len(texts) :]]
    logits = torch.split(network.head(network.norm(x[0, text_rows:])), sizes)
    return [logits[order.index(place)] for place in range(len(canvases))]


def _embedded(network: DiffusionGemma, ids: Tensor, text_rows: int, fed: Sequence[Tensor | None]) -> Tensor:
    """Embeds text and then canvases (T,) -> (1, T, H); ``fed``: each canvas's predictions, None for the first ones."""
    embedded = network.embed(ids)[None]
    soft = [network.fed_back(predicted) for predicted in fed if predicted is not None]
    edge = len(ids) - sum(len(rows) for rows in soft)
    parts = [embedded[:, :text_rows]]
    if edge > text_rows:
        parts.append(network.self_conditioning(embedded[:, text_rows:edge]))
    if soft:
        parts.append(network.self_conditioning(embedded[:, edge:], torch.cat(soft)[None]))
    return torch.cat(parts, dim=1)
