"""Vocabulary stage on a CPU, as in ``vocabulary``: a piece of the table at a time, and nothing is as wide as it.

The table is turned into numbers once for head and soft embedding. Running maximum, sums and soft embedding are scaled
again where a piece raises the maximum.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.kernels import reference
from engine.kernels.cpu import number, pieces
from engine.kernels.reference_sampling import TILE_TOKENS, VocabularyResult, draw_among
from engine.weights.quantize import Packed

PIECE = 32 * TILE_TOKENS  # tokens whose logits are held at once


def vocabulary_stage(
    hidden: Tensor,
    table: Packed,
    *,
    temperature: Tensor,
    draw: Tensor,
    cap: float,
    embed_scale: float,
    forbidden: Tensor | None = None,
    pinned: Tensor | None = None,
) -> VocabularyResult:
    """All that a denoising step takes from an 8-bit table (V, H); arguments as the kernel's."""
    kind = number(hidden.dtype)
    lowest = torch.finfo(torch.float32).min
    x, seed, step = hidden.to(kind), int(draw[0]), int(draw[1])
    top, score = hidden.new_full((2, hidden.shape[0]), lowest, dtype=torch.float32)
    mass, moment = hidden.new_zeros((2, hidden.shape[0]), dtype=torch.float32)  # of exp(l - top), and times l - top
    argmax, candidate = torch.zeros((2, hidden.shape[0]), dtype=torch.long)
    soft = torch.zeros(hidden.shape, dtype=torch.float32)
    # Fresh memory costs more than filling it.
    buffer = torch.empty(min(PIECE, table.shape[0]) * table.shape[1], dtype=kind)
    for part, rows in pieces(table, buffer):
        start, scales = part.start, table.scales[0, part]
        logits = (F.linear(x, rows) * scales).div_(cap).tanh_().mul_(cap / temperature)  # (C, PIECE) fp32
        if forbidden is not None:
            logits.masked_fill_(forbidden[part], -torch.inf)
        drawn, drawn_score = draw_among(logits, seed, step, start // TILE_TOKENS)
        candidate, score = torch.where(drawn_score > score, drawn, candidate), torch.maximum(drawn_score, score)
        best, place = logits.max(dim=-1)
        argmax = torch.where(best > top, place + start, argmax)
        higher = torch.maximum(top, best)
        rise = top - higher  # 0 or less; at the first piece so low that its power is 0
        gaps = logits.sub_(higher[:, None]).clamp_min_(lowest)
        shares = gaps.exp()
        moment = (moment + mass * rise) * rise.exp() + torch.linalg.vecdot(shares, gaps)
        mass = mass * rise.exp() + shares.sum(dim=-1)
        soft.mul_(rise.exp()[:, None]).add_(shares.mul_(scales).to(kind) @ rows)
        top = higher
    logsumexp = top + mass.log()
    entropy = mass.log() - moment / mass
    soft /= mass[:, None]
    if pinned is not None:
        held, token = pinned >= 0, pinned.long().clamp_min(0)
        argmax, candidate = torch.where(held, token, argmax), torch.where(held, token, candidate)
        entropy = entropy.masked_fill(held, 0.0)
        soft = torch.where(held[:, None], reference.rows(table, token, torch.float32), soft)
    nonfinite = (~logsumexp.isfinite()).any().to(torch.int32)[None]
    return VocabularyResult(argmax, candidate, entropy, logsumexp, (soft * embed_scale).to(hidden.dtype), nonfinite)
