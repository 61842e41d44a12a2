"""The model's batched forward passes for training: same layers and weights, with keys and values kept in the graph.

Sequences are padded on the left. RoPE is relative, so a row whose text starts late sees the same distances
as one that starts at position 0; padded keys are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from engine.kernels.reference_step import rotate
from engine.models.diffusion_gemma.block import Block
from engine.models.diffusion_gemma.network import DiffusionGemma

Prefix = list[tuple[Tensor, Tensor]]  # keys and values of each layer, each (B, heads, P, D)
RunLayer = Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]]
"""The type of ``through_layer``, and of its compiled form."""


def encode(
    model: DiffusionGemma,
    ids: Tensor,
    present: Tensor | None,
    run_layer: RunLayer | None = None,
    outputs: list[Tensor] | None = None,
) -> tuple[Tensor, Prefix]:
    """Runs the causal pass over prompts.

    Args:
        ids: (B, P).
        present: (B, P), False on padding; None if there is none.
        run_layer: a compiled ``through_layer``.
        outputs: the output of each layer, (B, P, H), before the final norm, is appended here.

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
    return run_layers(model, model.embed(ids), place, masks, befores, length, run_layer, outputs)


def predict(
    model: DiffusionGemma,
    canvas: Tensor,
    soft: Tensor | None,
    prefix: Prefix,
    present: Tensor | None,
    run_layer: RunLayer | None = None,
    outputs: list[Tensor] | None = None,
) -> Tensor:
    """Runs the bidirectional pass over canvases.

    Args:
        canvas: (B, C).
        soft: the previous step's probabilities (B, C, V); rows of zeros stand for none.
        prefix: from ``encode``.
        present, outputs: as there, outputs of (B, C, H).

    Returns:
        Soft-capped logits (B, C, V), fp32.
    """
    embedded = None if soft is None else model.soft_embedding(soft)
    return model.head(denoise(model, canvas, embedded, prefix, present, run_layer=run_layer, outputs=outputs))


def denoise(
    model: DiffusionGemma,
    canvas: Tensor,
    soft: Tensor | None,
    prefix: Prefix,
    present: Tensor | None,
    run_layer: RunLayer | None = None,
    outputs: list[Tensor] | None = None,
) -> Tensor:
    """Runs the pass of ``predict`` with soft embeddings (B, C, H) for ``soft``; returns the hidden states (B, C, H)."""
    count, length = canvas.shape[1], prefix[0][0].shape[2]
    masks = _canvas_masks(model, canvas, length, present)
    positions = torch.arange(length, length + count, device=canvas.device)
    x = model.self_conditioning(model.embed(canvas), soft)
    return run_layers(model, x, positions, masks, prefix, 0, run_layer, outputs)[0]


def attention(model: DiffusionGemma, layer: int, x: Tensor, prefix: Prefix, present: Tensor | None) -> Tensor:
    """Computes the attention of a layer's queries on canvases, from the layer's input.

    Args:
        x: its input, (B, C, H).
        prefix: from ``encode``.
        present: (B, P) as there.

    Returns:
        Log-probabilities (B, heads, C, P + C), fp32.
    """
    length, count = prefix[layer][0].shape[2], x.shape[1]
    mask = _canvas_masks(model, x[:, :, 0], length, present).get(model.config.layers[layer].kind)
    return attention_at(model, layer, x, prefix, torch.arange(length, length + count, device=x.device), mask)


def attention_at(
    model: DiffusionGemma, layer: int, x: Tensor, prefix: Prefix, positions: Tensor, mask: Tensor | None
) -> Tensor:
    """Computes the attention of queries at positions (C,) or (B, 1, C) under a mask, as ``attention``."""
    queries, own = _turned(model, layer, x, positions)
    keys = torch.cat([prefix[layer][0], own], dim=2)
    scores = (queries @ keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1).transpose(-1, -2)).float()
    return torch.log_softmax(scores if mask is None else scores.masked_fill(~mask, -1e9), dim=-1)


def text_attention(
    model: DiffusionGemma, layer: int, x: Tensor, prefix: Prefix, present: Tensor, at: tuple[Tensor, Tensor]
) -> Tensor:
    """Computes the attention of a few tokens of prompts; prompts must fit in the layer's window.

    Args:
        x: the layer's input, (B, P, H).
        prefix, present: as for ``attention``.
        at: the rows and the positions of the tokens that attend, (N,) each.

    Returns:
        Log-probabilities (N, heads, P), fp32.
    """
    rows, places = at
    queries = _turned(model, layer, x, torch.arange(x.shape[1], device=x.device))[0][rows, :, places]  # (N, heads, D)
    keys = prefix[layer][0][rows]
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    scores = (keys @ queries[..., None])[..., 0].float()
    seen = present[rows] & (torch.arange(x.shape[1], device=x.device) <= places[:, None])
    return torch.log_softmax(scores.masked_fill(~seen[:, None], -1e9), dim=-1)


def _turned(model: DiffusionGemma, layer: int, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Rotates queries and keys of a layer's input (B, N, H) at positions (N,) or (B, 1, N) -> (B, heads, N, D)."""
    block, config = model.layers[layer], model.config.layers[layer]
    assert isinstance(block, Block)
    own, normed = block.self_attn, block.input_layernorm(x)
    batch, count, _ = x.shape
    rope = model.ropes(positions, x.dtype)[config]

    def heads(projection: nn.Module, norm: nn.Module) -> Tensor:
        return rotate(norm(projection(normed).view(batch, count, -1, own.head_dim).transpose(1, 2)), *rope)

    return heads(own.q_proj, own.q_norm), heads(own.k_proj, own.k_norm)


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


def through_layer(
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


def run_layers(
    model: DiffusionGemma,
    x: Tensor,
    positions: Tensor,
    masks: Mapping[str, Tensor | None],
    befores: Sequence[tuple[Tensor, Tensor] | None],
    text_rows: int,
    run_layer: RunLayer | None,
    outputs: list[Tensor] | None = None,
) -> tuple[Tensor, Prefix]:
    """Runs all layers and the final norm.

    Args:
        befores: keys and values that a layer's queries see before the input's own; None for a layer without any.

    Returns:
        Hidden states, and each layer's keys and values of the input itself.
    """
    run_layer = run_layer or through_layer
    ropes = model.ropes(positions, x.dtype)
    prefix: Prefix = []
    for block, layer, before in zip(model.layers, model.config.layers, befores, strict=True):
        x, kept = run_layer(block, x, ropes[layer], masks.get(layer.kind), before, text_rows)
        prefix.append(kept)
        if outputs is not None:
            outputs.append(x)
    hidden: Tensor = model.norm(x)
    return hidden, prefix
