"""Vocabulary stage on a CPU, as in ``vocabulary``: a piece of the table at a time; no buffer spans the vocabulary.

Each piece is decoded once for head and soft embedding. Running sums and soft embedding are rescaled
when a piece raises the maximum.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.kernels import reference
from engine.kernels.cpu import even, number, share
from engine.kernels.cpu_decode import decoder
from engine.kernels.reference_step import TILE_TOKENS, VocabularyResult, draw_among, each_draw
from engine.quant import Packed

PIECE = 32 * TILE_TOKENS  # tokens whose logits a thread holds at once
LOWEST = torch.finfo(torch.float32).min


class _Sums(NamedTuple):
    """Running results of a part of the vocabulary. C positions; l are logits."""

    top: Tensor  # (C,) the largest l, finite
    mass: Tensor  # (C,) sum of exp(l - top)
    moment: Tensor  # (C,) sum of exp(l - top) * (l - top)
    soft: Tensor  # (C, H) sum of exp(l - top) times table rows
    argmax: Tensor  # (C,)
    score: Tensor  # (C,) of the token drawn
    candidate: Tensor  # (C,)

    @staticmethod
    def none(hidden: Tensor) -> _Sums:
        """Returns the results of no tokens."""
        lowest, zero = torch.full((2, len(hidden)), LOWEST), torch.zeros(2, len(hidden))
        token = torch.zeros((2, len(hidden)), dtype=torch.long)
        return _Sums(lowest[0], zero[0], zero[1], torch.zeros(hidden.shape), token[0], lowest[1], token[1])

    def joined(self, later: _Sums) -> _Sums:
        """Joins the results with those of the next part; overwrites ``soft``."""
        top = torch.maximum(self.top, later.top)
        fall, rise = self.top - top, later.top - top  # at most 0; after no tokens so low that the power is 0
        mine, theirs = fall.exp(), rise.exp()
        return _Sums(
            top,
            self.mass * mine + later.mass * theirs,
            (self.moment + self.mass * fall) * mine + (later.moment + later.mass * rise) * theirs,
            self.soft.mul_(mine[:, None]).addcmul_(later.soft, theirs[:, None]),
            torch.where(later.top > self.top, later.argmax, self.argmax),
            torch.maximum(self.score, later.score),
            torch.where(later.score > self.score, later.candidate, self.candidate),
        )


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
    """Runs the vocabulary stage of a denoising step with an int8 table (V, H); arguments as the kernel's."""
    kind = number(hidden.dtype)
    x, stretch = hidden.to(kind), cap / temperature[:, None]
    seed, step, own_place = each_draw(draw)

    def walk(part: range) -> _Sums:
        own = table.rows(part.start, part.stop)
        # Allocating memory costs more than filling it.
        buffer = torch.empty(min(PIECE, len(part)) * table.shape[1], dtype=kind)
        sums = _Sums.none(hidden)
        for place, rows in decoder(own).pieces(own, buffer):
            start, scales = part.start + place.start, own.scales[0, place]
            logits = (F.linear(x, rows) * scales).div_(cap).tanh_().mul_(stretch)  # (C, PIECE) fp32
            if forbidden is not None:
                logits.masked_fill_(forbidden[start : start + len(rows)], -torch.inf)
            drawn, score = draw_among(logits, seed, step, own_place, start // TILE_TOKENS)
            best, argmax = logits.max(dim=-1)
            top = best.clamp_min(LOWEST)
            below = logits.sub_(top[:, None]).clamp_min_(LOWEST)
            shares = below.exp()
            moment, mass = torch.linalg.vecdot(shares, below), shares.sum(dim=-1)
            soft = (shares.mul_(scales).to(kind) @ rows).float()
            sums = sums.joined(_Sums(top, mass, moment, soft, argmax + start, score, drawn))
        return sums

    parts = even(table.shape[0], PIECE) if table.shape[0] > PIECE else [range(table.shape[0])]
    top, mass, moment, soft, argmax, _, candidate = functools.reduce(_Sums.joined, share(walk, parts))
    logsumexp = top + mass.log()
    entropy, probability = mass.log() - moment / mass, 1 / mass
    soft /= mass[:, None]
    if pinned is not None:
        held, token = pinned >= 0, pinned.long().clamp_min(0)
        argmax, candidate = torch.where(held, token, argmax), torch.where(held, token, candidate)
        entropy, probability = entropy.masked_fill(held, 0.0), probability.masked_fill(held, 1.0)
        soft = torch.where(held[:, None], reference.rows(table, token, torch.float32), soft)
    nonfinite = (~logsumexp.isfinite()).any().to(torch.int32)[None]
    soft = (soft * embed_scale).to(hidden.dtype)
    return VocabularyResult(argmax, candidate, entropy, probability, logsumexp, soft, nonfinite)
