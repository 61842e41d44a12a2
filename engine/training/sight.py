"""The passes over drawings with their questions, and the losses of a model that sees.

A picture is read once, its questions and their canvases behind it each by itself. Besides the answers, two losses say
early what is wanted: soft tokens tell what is in their cells, by a linear probe that is not part of the model, and the
last tokens of the prompt tell the first characters of the answer, which the canvas is to look up there. A third one
says where those tokens are to look: at the cells that decide the question.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import VisionConfig
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.tasks import drawings
from engine.training.data.drawings import CELLS, LABELS, QUESTIONS, PicturePool, message_start, told_right
from engine.training.loss import canvas_loss, cross_entropy
from engine.training.network import Prefix, RunLayer, attention_at, run_layers

ENDS = 5  # the last tokens of a prompt: the end of the question and the turn marks
ASKED, LOOKING, LOOKED = (-3, -2), (-2, -1), 0.3  # as of decisions
FINDS_FIRST, FINDS = -4, -3  # layers in which the ends are to look at the cells that decide


def probe(model: DiffusionGemma) -> nn.Linear:
    """What tells from a soft token what is in its cell."""
    return nn.Linear(model.config.hidden_size, sum(LABELS), bias=False)


def cut(pixels: Tensor, config: VisionConfig) -> Tensor:
    """Square pictures (B, pixels) of 0 to 255 to the patches that the tower reads, as ``preprocess.patches`` does."""
    side, patch = drawings.SIDE, config.patch_size
    tiles = pixels.view(len(pixels), side // patch, patch, side // patch, patch, 3).swapaxes(2, 3)
    return tiles.reshape(len(pixels), -1, 3 * patch**2).float() / 255


def sight_loss(
    model: DiffusionGemma, probe: nn.Linear, soft: Tensor, pool: PicturePool, run_layer: RunLayer
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Of a pool's canvases.

    Args:
        soft: the pictures' soft tokens (B, cells, H), with gradients.

    Returns:
        The loss; logits (B * QUESTIONS, C, V); and what is reported.
    """
    before, shared, prefix, read = _read(model, soft, pool, run_layer)
    count, length = pool.canvas.shape[1], pool.present.sum(dim=1)
    device = pool.canvas.device
    positions = (before + length)[:, None, None] + torch.arange(count, device=device)  # (N, 1, C)
    others = torch.ones_like(pool.present[:, :1])
    seen = torch.cat([others.expand(-1, before), pool.present, others.expand(-1, count)], dim=1)
    mask = seen[:, None, None].expand(-1, 1, count, -1)
    written = list[Tensor]()
    x = model.self_conditioning(model.embed(pool.canvas), model.soft_embedding(pool.soft))
    masks: dict[str, Tensor | None] = {layer.kind: mask for layer in model.config.layers}
    hidden, _ = run_layers(model, x, positions, masks, prefix, 0, False, run_layer, written)
    logits = model.head(hidden)
    loss = canvas_loss(logits, pool.target)

    ends = length[:, None] - ENDS + torch.arange(ENDS, device=device)  # (N, ENDS)
    rows = torch.arange(len(ends), device=device)[:, None]
    wanted = pool.target[:, :ENDS]
    for layer in ASKED:
        asked = model.norm(read[layer][rows, ends])
        loss = loss + cross_entropy(model, asked.flatten(0, 1), wanted.flatten())
    known = (model.head(asked.detach()).argmax(dim=-1) == wanted).all(dim=1).float().mean()
    for layer in LOOKING:
        attended = attention_at(model, layer, written[layer - 1], prefix, positions, mask)
        places = (before + ends)[:, None, :, None].expand(-1, attended.shape[1], -1, -1)
        found = attended[:, :, :ENDS].gather(3, places)[..., 0]  # (N, heads, ENDS)
        loss = loss + LOOKED * (math.log(found.shape[1]) - found.logsumexp(dim=1).mean())
    for layer, bits in ((FINDS_FIRST, [drawings.FIRST] * ENDS), (FINDS, [1 << place for place in range(ENDS)])):
        attended = _asking(model, layer, read[layer - 1], shared, before)[rows, :, ends]  # (N, ENDS, heads, S)
        image = attended[..., before - 1 - CELLS**2 : before - 1]
        deciding = (pool.looked[:, None] & torch.tensor(bits, device=device)[:, None]) > 0  # (N, ENDS, cells)
        found = image.masked_fill(~deciding[:, :, None], -1e9).logsumexp(dim=(2, 3)) - math.log(image.shape[2])
        there = deciding.any(dim=-1)
        loss = loss - LOOKED * (found * there).sum() / there.sum().clamp(min=1)
    scores = probe(soft)
    return loss + cell_loss(scores, pool.cells), logits, {"ends": known, "cells": told_right(scores, pool.cells)}


def _read(
    model: DiffusionGemma, soft: Tensor, pool: PicturePool, run_layer: RunLayer
) -> tuple[int, Prefix, Prefix, list[Tensor]]:
    """Pictures, then their questions: tokens up to an image's end; keys and values up to there, and of all; what layers
    give on questions."""
    vision = model.config.vision
    assert vision is not None
    start = torch.tensor([*message_start(), vision.begin_token_id], device=soft.device)
    end = torch.tensor([vision.end_token_id], device=soft.device)
    around = [model.embed(ids).expand(len(soft), -1, -1) for ids in (start, end)]
    x = torch.cat([around[0], soft, around[1]], dim=1)
    before, length = x.shape[1], pool.ids.shape[1]
    assert before + length + pool.canvas.shape[1] <= model.config.sliding_window  # then all layers see the same
    place = torch.arange(before + length, device=soft.device)
    image = (place >= len(start)) & (place < before - 1)
    causal = place[None, :] <= place[:, None]
    mask = causal | (image[None, :] & image[:, None])

    def masks(first: int, last: int) -> dict[str, Tensor | None]:
        return {layer.kind: mask[first:last, :last] for layer in model.config.layers}

    empty = [None] * len(model.layers)
    _, pictures = run_layers(model, x, place[:before], masks(0, before), empty, before, False, run_layer)
    shared = [
        (keys.repeat_interleave(QUESTIONS, 0), values.repeat_interleave(QUESTIONS, 0)) for keys, values in pictures
    ]
    read = list[Tensor]()
    x = model.embed(pool.ids)
    _, own = run_layers(model, x, place[before:], masks(before, len(place)), shared, length, False, run_layer, read)
    both = [
        (torch.cat([keys, more_keys], dim=2), torch.cat([values, more_values], dim=2))
        for (keys, values), (more_keys, more_values) in zip(shared, own, strict=True)
    ]
    return before, shared, both, read


def _asking(model: DiffusionGemma, layer: int, x: Tensor, shared: Prefix, before: int) -> Tensor:
    """How much the questions' tokens attend to what: log-probabilities (N, heads, LENGTH, before + LENGTH)."""
    place = torch.arange(before + x.shape[1], device=x.device)
    return attention_at(model, layer, x, shared, place[before:], place[None, :] <= place[before:, None])


def cell_loss(scores: Tensor, cells: Tensor) -> Tensor:
    """Cross entropy of a probe's scores (B, cells, sum(LABELS))."""
    labels = cells.view(len(cells), CELLS**2, len(LABELS)).long()
    parts = torch.split(scores.float(), list(LABELS), dim=-1)
    return sum(
        (F.cross_entropy(part.flatten(0, 1), labels[..., place].flatten()) for place, part in enumerate(parts)),
        start=scores.new_zeros(()),
    )
