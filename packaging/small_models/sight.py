"""The passes over pictures with their questions, and the losses of a model that sees.

A picture is read once; each of its questions with its canvas follows it separately. Pictures of several sizes go
through together, padded to the largest, each at the positions that it would have alone.

Besides the answers, two losses train intermediate results. A linear probe, which is not part of the model, predicts
from a soft token the content of its cell. The last tokens of the prompt predict the first characters of the answer,
which the canvas should look up there. A third loss trains the attention of those tokens: to the cells that decide the
question, and before that to the thing it is about.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.vision.tower import VisionTower
from small_models.drawing_cells import FIRST
from small_models.losses import canvas_loss, cross_entropy
from small_models.network import Prefix, RunLayer, attention_at, run_layers
from small_models.picture_rows import (
    ANY,
    LABELS,
    PATCHES,
    QUESTIONS,
    ROW_ENDS,
    PicturePool,
    cell_accuracy,
    message_start,
)

ASKED, LOOKING, LOOKED = (-3, -2), (-2, -1), 0.3  # as in ``trainer``, for decisions
FOUND = 1.0  # the weight of looking at the deciding cells
THINGS = 2  # the weight of the thing in a cell, relative to that of its colour and the rest
FINDS_FIRST, FINDS = -4, -3  # layers in which the ends should look at the deciding cells


def probe(model: DiffusionGemma) -> nn.Linear:
    """Returns a linear probe that predicts from a soft token the content of its cell."""
    return nn.Linear(model.config.hidden_size, sum(LABELS), bias=False)


def soft_tokens(tower: VisionTower, pixels: Tensor, size: Tensor) -> Tensor:
    """Encodes pictures of several sizes at once, as in ``PictureRows``, to soft tokens (B, cells, H)."""
    values = pixels.view(len(pixels), -1, 3 * tower.config.patch_size**2)
    side = tower.config.pooling_kernel_size
    tile = torch.arange(values.shape[1] // PATCHES, device=size.device)
    within = torch.cartesian_prod(*[torch.arange(side, device=size.device)] * 2).flip(-1)
    corner = side * torch.stack([tile % size[:, 1:], (tile // size[:, 1:]).minimum(size[:, :1] - 1)], dim=-1)
    places = (corner[:, :, None] + within).flatten(1, 2)  # (B, P, 2); after a picture's own they have no meaning
    there = (tile < size.prod(dim=1, keepdim=True)).repeat_interleave(PATCHES, dim=1)
    x, rope = tower.embedded_at(values.float() / 255, places)
    for block in tower.layers:
        x = block(x, rope, there[:, None, None])
    return tower.projected_tiles(x.view(len(x), -1, PATCHES, x.shape[-1]))


def sight_loss(
    model: DiffusionGemma, probe: nn.Linear, soft: Tensor, pool: PicturePool, run_layer: RunLayer
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Computes the loss of a pool's canvases.

    Args:
        soft: the pictures' soft tokens (B, cells, H), with gradients.

    Returns:
        The loss; logits (B * QUESTIONS, C, V); and numbers to report.
    """
    there, start, shared, prefix, read = _read(model, soft, pool, run_layer)
    before = there.shape[1]
    count, length = pool.canvas.shape[1], pool.present.sum(dim=1)
    device = pool.canvas.device
    positions = (start + length)[:, None, None] + torch.arange(count, device=device)  # (N, 1, C)
    others = torch.ones_like(pool.present[:, :1])
    seen = torch.cat([there, pool.present, others.expand(-1, count)], dim=1)
    mask = seen[:, None, None].expand(-1, 1, count, -1)
    written = list[Tensor]()
    x = model.self_conditioning(model.embed(pool.canvas), model.soft_embedding(pool.soft))
    masks: dict[str, Tensor | None] = {layer.kind: mask for layer in model.config.layers}
    hidden, _ = run_layers(model, x, positions, masks, prefix, 0, run_layer, written)
    logits = model.head(hidden)
    loss = canvas_loss(logits, pool.target)

    number = torch.arange(ROW_ENDS, device=device)
    is_asked = number < pool.ends  # (N, ROW_ENDS), the characters of an answer that the ends predict
    ends = (length[:, None] - pool.ends + number).minimum(length[:, None] - 1)
    rows = torch.arange(len(ends), device=device)[:, None]
    wanted = pool.target[:, :ROW_ENDS]
    for layer in ASKED:
        asked = model.norm(read[layer][rows, ends])
        loss = loss + cross_entropy(model, asked[is_asked], wanted[is_asked])
    known = ((model.head(asked.detach()).argmax(dim=-1) == wanted) | ~is_asked).all(dim=1).float().mean()
    for layer in LOOKING:
        attended = attention_at(model, layer, written[layer - 1], prefix, positions, mask)
        places = (before + ends)[:, None, :, None].expand(-1, attended.shape[1], -1, -1)
        found = attended[:, :, :ROW_ENDS].gather(3, places)[..., 0]  # (N, heads, ROW_ENDS)
        loss = loss + LOOKED * (math.log(found.shape[1]) - found.logsumexp(dim=1)[is_asked].mean())
    for layer, bits in ((FINDS_FIRST, torch.full_like(number, FIRST)), (FINDS, 1 << number)):
        attended = _asking(model, layer, read[layer - 1], shared, there, start)
        attended = attended[rows, :, ends]  # (N, ROW_ENDS, heads, S)
        seen = torch.cat([attended[..., before - 1 - soft.shape[1] : before - 1], attended[..., before:]], dim=-1)
        deciding = (pool.looked[:, None] & bits[:, None]) > 0  # (N, ends, cells and tokens)
        found = seen.masked_fill(~deciding[:, :, None], -1e9).logsumexp(dim=(2, 3)) - math.log(seen.shape[2])
        any_there = deciding.any(dim=-1) & is_asked
        loss = loss - FOUND * (found * any_there).sum() / any_there.sum().clamp(min=1)
    scores = probe(soft)
    loss = loss + cell_loss(scores, pool.cells, pool.size)
    return loss, logits, {"ends": known, "cells": cell_accuracy(scores, pool.cells)}


def _read(
    model: DiffusionGemma, soft: Tensor, pool: PicturePool, run_layer: RunLayer
) -> tuple[Tensor, Tensor, Prefix, Prefix, list[Tensor]]:
    """Reads pictures, then their questions.

    Returns:
        For each question: the present tokens up to its image's end (N, before), and the position after it (N,);
        keys and values up to there, and of all; and the layers' outputs on questions.
    """
    vision = model.config.vision
    assert vision is not None
    first = torch.tensor([*message_start(), vision.begin_token_id], device=soft.device)
    end = torch.tensor([vision.end_token_id], device=soft.device)
    around = [model.embed(ids).expand(len(soft), -1, -1) for ids in (first, end)]
    x = torch.cat([around[0], soft, around[1]], dim=1)
    before, length = x.shape[1], pool.ids.shape[1]
    assert before + length + pool.canvas.shape[1] <= model.config.sliding_window  # so that all layers see the same
    place = torch.arange(before, device=soft.device)
    count = len(first) + pool.size.prod(dim=1)  # tokens before an image's end
    there = (place < count[:, None]) | (place == before - 1)  # (B, before)
    positions = torch.where(place == before - 1, count[:, None], place)[:, None]
    image = (place >= len(first)) & (place < before - 1)
    causal = place <= place[:, None]
    itself = torch.eye(before, dtype=torch.bool, device=soft.device)  # so that no softmax is over an empty set
    mask = (causal | (image & image[:, None])) & there[:, None] | itself

    def masks(seen: Tensor) -> dict[str, Tensor | None]:
        return {layer.kind: seen for layer in model.config.layers}

    empty = [None] * len(model.layers)
    _, pictures = run_layers(model, x, positions, masks(mask[:, None]), empty, before, run_layer)
    shared = [
        (keys.repeat_interleave(QUESTIONS, 0), values.repeat_interleave(QUESTIONS, 0)) for keys, values in pictures
    ]
    there, start = there.repeat_interleave(QUESTIONS, 0), (count + 1).repeat_interleave(QUESTIONS, 0)
    read = list[Tensor]()
    positions, seen = _behind(there, start, length)
    _, own = run_layers(model, model.embed(pool.ids), positions, masks(seen), shared, length, run_layer, read)
    both = [
        (torch.cat([keys, more_keys], dim=2), torch.cat([values, more_values], dim=2))
        for (keys, values), (more_keys, more_values) in zip(shared, own, strict=True)
    ]
    return there, start, shared, both, read


def _asking(model: DiffusionGemma, layer: int, x: Tensor, shared: Prefix, there: Tensor, start: Tensor) -> Tensor:
    """Computes the attention of the questions' tokens: log-probabilities (N, heads, LENGTH, before + LENGTH)."""
    return attention_at(model, layer, x, shared, *_behind(there, start, x.shape[1]))


def _behind(there: Tensor, start: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Returns positions (N, 1, LENGTH) of questions after their pictures, and masks (N, 1, LENGTH, before + LENGTH)."""
    place = torch.arange(length, device=start.device)
    own = (place <= place[:, None]).expand(len(there), -1, -1)
    seen = torch.cat([there[:, None].expand(-1, length, -1), own], dim=2)
    return (start[:, None] + place)[:, None], seen[:, None]


def cell_loss(scores: Tensor, cells: Tensor, size: Tensor) -> Tensor:
    """Computes the cross entropy of a probe's scores (B, cells, sum(LABELS)) on the cells of pictures."""
    labels = cells.view(*scores.shape[:2], len(LABELS)).long()
    there = torch.arange(scores.shape[1], device=size.device) < size.prod(dim=1, keepdim=True)
    labels = labels.masked_fill(~there[..., None] | (labels == ANY), -100)  # ignored by the loss
    parts = torch.split(scores.float(), list(LABELS), dim=-1)
    loss = scores.new_zeros((), dtype=torch.float32)
    for place, part in enumerate(parts):
        wanted = labels[..., place].flatten()
        surprise = F.cross_entropy(part.flatten(0, 1), wanted, reduction="sum")
        loss = loss + (THINGS if place == 0 else 1) * surprise / (wanted >= 0).sum().clamp(min=1)
    return loss
