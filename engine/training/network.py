"""The model's batched forward passes for training: same layers and weights, with keys and values kept in the graph.

Sequences are padded on the left. RoPE is relative, so a row whose text starts late sees the same distances
as one that starts at position 0; padded keys are masked.

With ``recompute`` only the input of each layer is kept for backward, and the layer is run again there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.config import LayerConfig
from engine.models.diffusion_gemma.network import DiffusionGemma

Prefix = list[tuple[Tensor, Tensor]]  # keys and values of each layer, each (B, heads, P, D)


def encode(
    model: DiffusionGemma, ids: Tensor, present: Tensor | None, recompute: bool = False
) -> tuple[Tensor, Prefix]:
    """Runs the causal pass over prompts.

    Args:
        ids: (B, P).
        present: (B, P), False on padding; None if there is none.
        recompute: run the layers again in backward instead of keeping their activations.

    Returns:
        Hidden states (B, P, H), and the keys and values of each layer.
    """
    length = ids.shape[1]
    place = torch.arange(length, device=ids.device)
    full = place[None, :] <= place[:, None]  # (P, P)
    near = full & (place[None, :] > place[:, None] - model.config.sliding_window)
    masks: dict[str, Tensor | None] = {"full_attention": full, "sliding_attention": near}
    if present is not None:
        # a padded query sees itself, so that no softmax is over an empty set
        own = torch.eye(length, dtype=torch.bool, device=ids.device)
        masks = {kind: (mask & present[:, None, :] | own)[:, None] for kind, mask in masks.items() if mask is not None}
    befores = [None] * len(model.layers)
    return _run_layers(model, model.embed(ids), place, masks, befores, length, recompute)


def denoise(
    model: DiffusionGemma,
    canvas: Tensor,
    soft: Tensor | None,
    prefix: Prefix,
    present: Tensor | None,
    recompute: bool = False,
) -> Tensor:
    """Runs the bidirectional pass over canvases.

    Args:
        canvas: (B, C).
        soft: soft embeddings of the previous step's probabilities (B, C, H); rows of zeros stand for none.
        prefix: from ``encode``.
        present, recompute: as there.

    Returns:
        Hidden states (B, C, H).
    """
    count, length = canvas.shape[1], prefix[0][0].shape[2]
    masks = _canvas_masks(model, canvas, length, present)
    positions = torch.arange(length, length + count, device=canvas.device)
    x = model.self_conditioning(model.embed(canvas), soft)
    return _run_layers(model, x, positions, masks, prefix, 0, recompute)[0]


def _canvas_masks(
    model: DiffusionGemma, canvas: Tensor, length: int, present: Tensor | None
) -> Mapping[str, Tensor | None]:
    """Returns the masks of canvases (B, C) over a prefix of ``length`` and themselves, (B, 1, C, P + C), by layer kind.

    A kind without a mask sees everything."""
    window = model.config.sliding_window - 1
    if present is None and length <= window:
        return {}
    seen = canvas.new_ones(len(canvas), length, dtype=torch.bool) if present is None else present
    near = seen & (torch.arange(length, device=canvas.device) >= length - window)
    own = torch.ones_like(canvas, dtype=torch.bool)
    masks = {"full_attention": seen, "sliding_attention": near}
    return {
        kind: torch.cat([mask, own], dim=1)[:, None, None].expand(-1, 1, canvas.shape[1], -1)
        for kind, mask in masks.items()
    }


def _through_layer(
    block: nn.Module,
    x: Tensor,
    rope: tuple[Tensor, Tensor],
    mask: Tensor | None,
    before: tuple[Tensor, Tensor] | None,
    text_rows: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Runs one layer; returns its output, and its input's keys and values. Queries see those of ``before``, too."""
    own: Prefix = []

    def extend(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        own.append((keys, values))
        if before is None:
            return keys, values
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    return block(x, rope, mask, extend, text_rows), own[0]


def _run_layers(
    model: DiffusionGemma,
    x: Tensor,
    positions: Tensor,
    masks: Mapping[str, Tensor | None],
    befores: Sequence[tuple[Tensor, Tensor] | None],
    text_rows: int,
    recompute: bool,
) -> tuple[Tensor, Prefix]:
    """Runs all layers and the final norm.

    Args:
        befores: keys and values that a layer's queries see before the input's own; None for a layer without any.

    Returns:
        Hidden states, and each layer's keys and values of the input itself.
    """
    ropes = model.ropes(positions, x.dtype)
    prefix: Prefix = []
    for block, layer, before in zip(model.layers, model.config.layers, befores, strict=True):

        def through(x: Tensor, block: nn.Module = block, layer: LayerConfig = layer, before: Any = before) -> Any:
            return _through_layer(block, x, ropes[layer], masks.get(layer.kind), before, text_rows)

        if recompute and torch.is_grad_enabled():
            x, kept = checkpoint(through, x, use_reentrant=False, preserve_rng_state=False)
        else:
            x, kept = through(x)
        prefix.append(kept)
    hidden: Tensor = model.norm(x)
    return hidden, prefix
