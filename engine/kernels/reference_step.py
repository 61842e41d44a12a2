"""The oracles of the vocabulary, attention and norm kernels, in plain torch; also the path without Triton.

Draws are as in the kernels: the same Philox counters and the same two-stage choice, so that a seed gives the same
result everywhere, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.quant import Packed, unpack


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates heads (..., T, D) by tables that broadcast to them; pairs are (i, i + D/2).

    Of tables narrower than a head, only its first numbers are rotated, as a head of their own.
    """
    turning = cos.shape[-1]
    if turning < x.shape[-1]:
        return torch.cat([rotate(x[..., :turning], cos, sin), x[..., turning:]], dim=-1)
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + turned * sin


TILE_TOKENS = 128  # of the vocabulary; changing it changes the draws of a seed
TINY = 1e-10  # keeps the noise's logarithms finite


@dataclass(frozen=True)
class VocabularyResult:
    """The results of the vocabulary stage. C positions, H hidden."""

    argmax: Tensor  # (C,) int64, the likeliest token
    candidate: Tensor  # (C,) int64, the token drawn
    entropy: Tensor  # (C,) fp32, nats
    probability: Tensor  # (C,) fp32, of the likeliest token
    logsumexp: Tensor  # (C,) fp32, of the temperature-scaled logits; a pinned position's as if it were free
    soft: Tensor  # (C, H) in hidden's type: expected table row times ``embed_scale``
    nonfinite: Tensor  # (1,) int32, not 0 if any position's softmax is not finite


def vocabulary_stage(
    hidden: Tensor,
    table: Packed | Tensor,
    *,
    temperature: Tensor,
    draw: Tensor,
    cap: float,
    embed_scale: float,
    forbidden: Tensor | None = None,
    pinned: Tensor | None = None,
) -> VocabularyResult:
    """Runs the vocabulary stage of a denoising step; arguments as the kernel's."""
    rows = unpack(table) if isinstance(table, Packed) else table.float()
    logits = torch.tanh(hidden.float() @ rows.T / cap) * cap / temperature[:, None]
    if forbidden is not None:
        logits = logits.masked_fill(forbidden, -torch.inf)
    log_p = torch.log_softmax(logits, dim=-1)
    p = log_p.exp()
    logsumexp = logits.logsumexp(dim=-1)
    argmax, candidate = logits.argmax(dim=-1), draw_tokens(logits, *each_draw(draw))
    entropy = -(p * log_p.clamp_min(torch.finfo(torch.float32).min)).sum(dim=-1)
    probability = p.amax(dim=-1)
    soft = p @ rows
    if pinned is not None:
        held, token = pinned >= 0, pinned.long().clamp_min(0)
        argmax, candidate = torch.where(held, token, argmax), torch.where(held, token, candidate)
        entropy, probability = entropy.masked_fill(held, 0.0), probability.masked_fill(held, 1.0)
        soft = torch.where(held[:, None], rows[token], soft)
    nonfinite = (~logsumexp.isfinite()).any().to(torch.int32)[None]
    soft = (soft * embed_scale).to(hidden.dtype)
    return VocabularyResult(argmax, candidate, entropy, probability, logsumexp, soft, nonfinite)


def each_draw(draw: Tensor) -> tuple[int, int, None] | tuple[Tensor, Tensor, Tensor]:
    """Returns seed, step and place as ``draw_tokens`` takes them, from a stage's ``draw``."""
    if draw.dim() == 1:
        return int(draw[0]), int(draw[1]), None
    seed, step, place = draw[:, :, None].unbind(1)
    return seed, step, place


def draw_tokens(logits: Tensor, seed: int | Tensor, step: int | Tensor, place: Tensor | None = None) -> Tensor:
    """Draws one token per position: Gumbel-max among tiles by mass, inverse CDF in the tile. (C, V) -> (C,).

    Seed and step are those of all positions, whose places are 0 .. C; or of each position, with its place in its
    canvas, (C, 1).
    """
    return draw_among(logits, seed, step, place)[0]


def draw_among(
    logits: Tensor, seed: int | Tensor, step: int | Tensor, place: Tensor | None = None, first_tile: int = 0
) -> tuple[Tensor, Tensor]:
    """Returns the token drawn from a part of the vocabulary from a tile on, and its score: the highest wins."""
    positions, vocabulary = logits.shape
    tiled = F.pad(logits.float(), (0, -vocabulary % TILE_TOKENS), value=-torch.inf).view(positions, -1, TILE_TOKENS)
    tile = torch.arange(first_tile, first_tile + tiled.shape[1], device=logits.device)[None, :].expand(positions, -1)
    own = torch.arange(positions, device=logits.device)[:, None] if place is None else place
    counter = torch.zeros_like(tile)
    between, among = (uniform(bits) for bits in philox(seed, tile, own.expand_as(tile), counter + step, counter)[:2])
    best = tiled.amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).min)
    weights = (tiled - best).exp()  # (C, T, 128)
    mass = weights.sum(dim=-1)
    noise = -(-between.clamp_min(TINY).log()).clamp_min(TINY).log()
    score, chosen = (mass.log() + best[..., 0] + noise).max(dim=-1)
    rows = torch.arange(positions, device=logits.device)
    weights = weights[rows, chosen]  # (C, 128)
    target = (among * mass)[rows, chosen]
    passed = (weights > 0) & (weights.cumsum(dim=-1) > target[:, None])
    within = torch.where(passed.any(dim=-1), passed.to(torch.uint8).argmax(dim=-1), weights.argmax(dim=-1))
    return (first_tile + chosen) * TILE_TOKENS + within, score


def philox(seed: int | Tensor, *counters: Tensor) -> list[Tensor]:
    """Runs Philox4x32-10 (source: Salmon et al. 2011): four int64 counters of 32 bits -> four of random bits.

    A seed for all, or int64 ones that go with the counters' shape.
    """
    c0, c1, c2, c3 = counters
    low = 0xFFFFFFFF
    k0, k1 = seed & low, seed >> 32 & low
    for _ in range(10):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57  # wraps in 64 bits, which keeps all bits
        c0, c1, c2, c3 = (b >> 32 & low) ^ c1 ^ k0, b & low, (a >> 32 & low) ^ c3 ^ k1, a & low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    return [c0, c1, c2, c3]


def uniform(bits: Tensor) -> Tensor:
    """Maps 32 random bits to fp32 in [0, 1), as Triton does."""
    signed = torch.where(bits >= 1 << 31, (1 << 32) - 1 - bits, bits)
    return signed.float() * 4.6566127342e-10


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, span: Tensor, text_rows: int = 0, window: int | None = None
) -> Tensor:
    """Attends from queries at the end of the valid keys to keys and values in buffers; arguments as the kernel's."""
    heads, count, size = queries.shape
    first, end = span.tolist()
    place = torch.arange(end - count, end, device=queries.device)[:, None]
    text = place < end - count + text_rows
    lowest = torch.full_like(place, first)
    if window is not None:
        lowest = torch.where(text, (place - window + 1).clamp_min(0), lowest)
    start = int(lowest.min())
    key = torch.arange(start, end, device=queries.device)[None, :]
    mask = (key >= lowest) & (~text | (key <= place))
    groups = heads // keys.shape[0]
    seen, said = (buffer[:, start:end].repeat_interleave(groups, dim=0)[None] for buffer in (keys, values))
    out = F.scaled_dot_product_attention(queries[None], seen, said, attn_mask=mask, scale=1.0)[0]
    return out.transpose(0, 1).reshape(count, heads * size)


def norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Returns x / rms(x) over the last dimension, times a weight, in fp32."""
    normed = x.float() * (x.float().square().mean(-1, keepdim=True) + eps).rsqrt()
    return normed if weight is None else normed * weight.float()


def add_norm(x: Tensor, y: Tensor, post: Tensor, pre: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Returns x + norm(y) * post, and the norms of that; arguments as the kernel's."""
    total = x.float() + norm(y, post, eps)
    return total.to(x.dtype), torch.stack([norm(total, weight, eps) for weight in pre]).to(x.dtype)


def merge_norm(
    x: Tensor, dense: Tensor, sparse: Tensor, weights: Tensor, scalars: Tensor, text_rows: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Computes a layer's end and the next one's pre-norm; arguments as the kernel's."""
    summed = sparse.float().view(x.shape[0], -1, x.shape[1]).sum(dim=1)
    both = norm(dense, weights[0], eps) + norm(summed, weights[1], eps)
    is_canvas = (torch.arange(x.shape[0], device=x.device) >= text_rows).long()
    total = (x.float() + norm(both, weights[2], eps)) * scalars.float()[is_canvas, None]
    return total.to(x.dtype), norm(total, weights[3], eps).to(x.dtype)


def head_norm_rope(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: tuple[Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    buffers: tuple[Tensor, Tensor],
    end: Tensor,
    eps: float,
) -> Tensor:
    """Prepares queries for attention, and writes keys and values to their buffers; arguments as the kernel's."""
    count, size = rope[0].shape
    cos, sin = (table.float() for table in rope)

    def heads(x: Tensor, weight: Tensor | None) -> Tensor:
        return norm(x.view(count, -1, size).transpose(0, 1), weight, eps)

    place = slice(int(end) - count, int(end))
    buffers[0][:, place] = rotate(heads(keys, weights[1]), cos, sin).to(buffers[0].dtype)
    buffers[1][:, place] = heads(values, None).to(buffers[1].dtype)
    return rotate(heads(queries, weights[0]), cos, sin).to(queries.dtype)
