"""The model's batched forward passes for training: same layers, same weights, keys and values kept as a graph.

Sequences are padded on the left. RoPE is relative, so a row whose text starts late sees the same distances
as one that starts at position 0; padded keys are masked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.layers.attention import Extend
from engine.models.diffusion_gemma import DiffusionGemma

Prefix = list[tuple[Tensor, Tensor]]  # keys and values a layer, each (B, heads, P, D)


def encode(model: DiffusionGemma, ids: Tensor, present: Tensor | None) -> tuple[Tensor, Prefix]:
    """Causal pass over prompts.

    Args:
        ids: (B, P). present: (B, P), False on padding; None if there is none.

    Returns:
        Hidden states (B, P, H), and the keys and values of each layer.
    """
    prefix: Prefix = []

    def recorder() -> Extend:
        def record(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            prefix.append((keys, values))
            return keys, values

        return record

    length = ids.shape[1]
    place = torch.arange(length, device=ids.device)
    full = place[None, :] <= place[:, None]  # (P, P)
    near = full & (place[None, :] > place[:, None] - model.config.sliding_window)
    masks: dict[str, Tensor | None] = {"full_attention": full, "sliding_attention": near}
    if present is not None:
        # A padded query keeps itself, so that no softmax runs over nothing.
        own = torch.eye(length, dtype=torch.bool, device=ids.device)
        masks = {kind: (mask & present[:, None, :] | own)[:, None] for kind, mask in masks.items() if mask is not None}
    hidden = model.run(model.embed(ids), place, masks, [recorder() for _ in model.layers], text_rows=length)
    return hidden, prefix


def predict(
    model: DiffusionGemma, canvas: Tensor, soft: Tensor | None, prefix: Prefix, present: Tensor | None
) -> Tensor:
    """Bidirectional pass over canvases.

    Args:
        canvas: (B, C). soft: the previous step's probabilities (B, C, V); rows of zeros stand for none.
        prefix: from ``encode``. present: (B, P) as there.

    Returns:
        Soft-capped logits (B, C, V), fp32.
    """

    def joiner(kept: tuple[Tensor, Tensor]) -> Extend:
        return lambda keys, values: (torch.cat([kept[0], keys], dim=2), torch.cat([kept[1], values], dim=2))

    batch, count = canvas.shape
    length = prefix[0][0].shape[2]
    masks: dict[str, Tensor | None] = {}
    window = model.config.sliding_window - 1
    if present is not None or length > window:
        seen = torch.ones(batch, length, dtype=torch.bool, device=canvas.device) if present is None else present
        near = seen & (torch.arange(length, device=canvas.device) >= length - window)
        own = torch.ones(batch, count, dtype=torch.bool, device=canvas.device)
        for kind, mask in (("full_attention", seen), ("sliding_attention", near)):
            masks[kind] = torch.cat([mask, own], dim=1)[:, None, None].expand(-1, 1, count, -1)
    positions = torch.arange(length, length + count, device=canvas.device)
    embedded = model.embed(canvas)
    x = model.self_conditioning(embedded, None if soft is None else model.soft_embedding(soft))
    return model.head(model.run(x, positions, masks, [joiner(kept) for kept in prefix]))
