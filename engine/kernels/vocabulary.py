"""The vocabulary stage of a denoising step: hidden states in, draws and the next soft embedding out.

Head, soft-cap, temperature, softmax statistics, sampling and soft embedding in one pass over the token table. The table
is processed in chunks that fit the L2 cache: a chunk's rows are read from memory once, for its logits, and from the
cache for its share of the soft embedding. No canvas x vocabulary buffer is written.

- **score_kernel**, a tile of 128 tokens: logits; their softmax statistics per position: the exponent of two that
  covers the largest, sum and first moment relative to it, the best token, a drawn token; and
  the tile's weights 2^(logit - exponent) in bf16. Because exponents are whole, changing the exponent of weights is
  exact.
- **embed_kernel**: adds weights x rows of the chunk to the soft embedding, rescaled to the largest exponent so far.
- **merge_kernel**: joins the tiles of the whole vocabulary.

A draw is exact and needs two random numbers per tile instead of one per token: Gumbel-max chooses among the tiles by
their mass, an inverse CDF among a tile's tokens. Philox counters are (tile, position, step), its key is the seed; tiles
have one size everywhere, so that a seed gives the same draws on every card.

Floor, 256 positions, 262 144 x 2816 in int8: 738 MB, 0.76 TFLOP. Predicted, not measured: H200 1.7 ms (compute floor
0.96, memory floor 0.17; tiles of 128 x 128 draw 4.4 GB from the L2 cache for each of the two products), RTX 4090 5.5 ms
(4.6 and 0.73).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.linear_w8a16 import processors, token_block
from engine.kernels.reference_step import TILE_TOKENS, VocabularyResult
from engine.quant import Packed

BLOCK_HIDDEN = 128
STAGES = 3  # with two, each block is waited for as soon as it is requested
BLOCK_K = 64
WAVES = 2  # rounds of tiles a chunk: a large one amortises launches, and must fit the L2 cache
MERGE_TILES = 128
MERGE_POSITIONS = 8  # fp32 values of one memory sector
STATISTICS = 4  # fp32 values that a tile stores per position: mass, moment, best logit, draw's key
BIAS = tl.constexpr(1 << 20)  # makes exponents positive: a zeroed buffer holds less than any of them
LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
TINY = tl.constexpr(1e-10)  # keeps the noise's logarithms finite


@triton.jit(do_not_specialize=["first_tile"])
def score_kernel(
    hidden_ptr, table_ptr, scales_ptr, forbidden_ptr, temperature_ptr, draw_ptr,
    weights_ptr, exponents_ptr, tokens_ptr, statistics_ptr, highest_ptr,
    positions, first_tile, tiles, cap,
    V: tl.constexpr, K: tl.constexpr, CHUNK: tl.constexpr,
    HAS_SCALES: tl.constexpr, HAS_FORBIDDEN: tl.constexpr, EACH: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes the logits of one tile, M positions x N tokens, and their statistics.

    Grid: position tiles, tiles of a chunk.

    EACH: every position has its own temperature and draw.
    """
    tile = first_tile + tl.program_id(1)
    within = tl.arange(0, N)
    token = tile * N + within
    row = tl.minimum(token, V - 1)
    position = tl.program_id(0) * M + tl.arange(0, M)
    inside = position < positions
    near = tl.minimum(position, positions - 1)
    inner = tl.arange(0, BLOCK)
    logits = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + inner
        if K % BLOCK == 0:
            hidden = tl.load(hidden_ptr + near[:, None] * K + k[None, :])
            rows = tl.load(table_ptr + row[:, None] * K + k[None, :])
        else:
            hidden = tl.load(hidden_ptr + near[:, None] * K + k[None, :], mask=k[None, :] < K, other=0)
            rows = tl.load(table_ptr + row[:, None] * K + k[None, :], mask=k[None, :] < K, other=0)
        logits = tl.dot(hidden, tl.trans(rows.to(hidden.dtype)), logits)
    if HAS_SCALES:
        scales = tl.load(scales_ptr + row)
        logits *= scales[None, :]
    # cap * tanh(logit / cap) / temperature, in units of log 2
    temperature = tl.load(temperature_ptr + near)[:, None] if EACH else tl.load(temperature_ptr)
    logits = (2.0 / (1.0 + tl.exp2(logits * (-2.0 * LOG2E / cap))) - 1.0) * (cap * LOG2E / temperature)
    allowed = token < V
    if HAS_FORBIDDEN:
        allowed = allowed & (tl.load(forbidden_ptr + row) == 0)
    logits = tl.where(allowed[None, :], logits, float("-inf"))

    best = tl.max(logits, axis=1)
    best_at = tl.min(tl.where(logits == best[:, None], within[None, :], N - 1), axis=1)
    exponent = tl.maximum(tl.ceil(best), -1.0 * BIAS + 1.0)
    logits -= exponent[:, None]
    weights = tl.exp2(logits)
    mass = tl.sum(weights, axis=1)
    moment = tl.sum(weights * tl.where(weights > 0, logits, 0.0), axis=1)  # never 0 x inf

    scaled = weights * scales[None, :] if HAS_SCALES else weights
    to = weights_ptr + position[:, None] * CHUNK + tl.program_id(1) * N + within[None, :]
    tl.store(to, scaled.to(weights_ptr.dtype.element_ty), mask=inside[:, None])

    counter = tl.zeros((M,), tl.int32)
    if EACH:
        seed, step = tl.load(draw_ptr + near * 3), tl.load(draw_ptr + near * 3 + 1).to(tl.int32)
        place = tl.load(draw_ptr + near * 3 + 2).to(tl.int32)
    else:
        seed, step, place = tl.load(draw_ptr), tl.load(draw_ptr + 1).to(tl.int32), position
    between, among, _, _ = tl.philox(seed, counter + tile, place, counter + step, counter)
    passed = (weights > 0) & (tl.cumsum(weights, axis=1) > (tl.uint_to_uniform_float(among) * mass)[:, None])
    drawn_at = tl.min(tl.where(passed, within[None, :], N), axis=1)
    drawn_at = tl.where(drawn_at == N, best_at, drawn_at)  # the sum rounded past the last weight
    noise = tl.maximum(tl.uint_to_uniform_float(between), TINY)
    noise = -tl.log2(tl.maximum(-LN2 * tl.log2(noise), TINY))
    key = tl.log2(tl.where(mass > 0, mass, 1.0)) + exponent + noise

    at = tile * positions + position
    every = tiles * positions
    biased = exponent.to(tl.int32) + BIAS
    tl.store(exponents_ptr + at, biased, mask=inside)
    tl.store(tokens_ptr + at, tile * N + best_at, mask=inside)
    tl.store(tokens_ptr + every + at, tile * N + drawn_at, mask=inside)
    tl.store(statistics_ptr + at, mass, mask=inside)
    tl.store(statistics_ptr + every + at, moment, mask=inside)
    tl.store(statistics_ptr + 2 * every + at, best, mask=inside)
    tl.store(statistics_ptr + 3 * every + at, key, mask=inside)
    tl.atomic_max(highest_ptr + positions + position, tl.maximum(biased, tl.load(highest_ptr + near)), mask=inside)


@triton.jit(do_not_specialize=["first_tile", "count"])
def embed_kernel(
    weights_ptr, table_ptr, exponents_ptr, highest_ptr, soft_ptr, positions, first_tile, count,
    V: tl.constexpr, K: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr,
    FIRST: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Updates the soft embedding, M positions x N hidden: += a chunk's weights x rows.

    Grid: position tiles, hidden tiles, splits.

    Each split of a chunk's ``count`` tiles has its own sum, (SPLITS, positions, K) fp32.
    """
    position = tl.program_id(0) * M + tl.arange(0, M)
    inside = position < positions
    near = tl.minimum(position, positions - 1)
    column = tl.program_id(1) * N + tl.arange(0, N)
    split = tl.program_id(2)
    highest = tl.load(highest_ptr + positions + near)
    place = soft_ptr + (split * positions + position[:, None]) * K + column[None, :]
    there = inside[:, None] & (column < K)[None, :]
    total = tl.zeros((M, N), tl.float32)
    share = tl.cdiv(count, SPLITS)
    steps: tl.constexpr = TILE // BLOCK
    inner = tl.arange(0, BLOCK)
    # A clamp hides that the columns are contiguous: each byte would be loaded separately.
    near_column = column if K % N == 0 else tl.minimum(column, K - 1)
    for step in range(split * share * steps, tl.minimum(split * share + share, count) * steps):
        token = step * BLOCK + inner  # within the chunk
        tile = first_tile + step // steps
        shrink = tl.exp2((tl.load(exponents_ptr + tile * positions + near) - highest).to(tl.float32))
        weights = tl.load(weights_ptr + near[:, None] * CHUNK + token[None, :])
        row = tl.minimum(first_tile * TILE + token, V - 1)
        rows = tl.load(table_ptr + row[:, None] * K + near_column[None, :])
        weights = (weights * shrink[:, None].to(weights.dtype)).to(weights.dtype)
        total = tl.dot(weights, rows.to(weights.dtype), total)
    if not FIRST:
        shrink = tl.exp2((tl.load(highest_ptr + near) - highest).to(tl.float32))
        total += tl.load(place, mask=there, other=0.0) * shrink[:, None]
    tl.store(place, total, mask=there)


@triton.jit
def merge_kernel(
    exponents_ptr, tokens_ptr, statistics_ptr, highest_ptr, soft_parts_ptr, table_ptr, scales_ptr, pinned_ptr,
    argmax_ptr, candidate_ptr, entropy_ptr, probability_ptr, logsumexp_ptr, soft_ptr, nonfinite_ptr,
    positions, tiles, embed_scale,
    K: tl.constexpr, SPLITS: tl.constexpr, HAS_SCALES: tl.constexpr, HAS_PINNED: tl.constexpr,
    TILES: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merges all tiles' statistics and the soft embedding's splits for N positions; pinned ones take their token."""
    position = tl.program_id(0) * N + tl.arange(0, N)
    inside = position < positions
    highest = tl.load(highest_ptr + position, mask=inside, other=BIAS)
    every = tiles * positions
    mass = tl.zeros((N,), tl.float32)
    moment = tl.zeros((N,), tl.float32)
    best = tl.full((N,), float("-inf"), tl.float32)
    drawn = tl.full((N,), float("-inf"), tl.float32)
    best_token = tl.zeros((N,), tl.int32)
    drawn_token = tl.zeros((N,), tl.int32)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        mask = (tile < tiles)[:, None] & inside[None, :]
        at = tile[:, None] * positions + position[None, :]
        exponent = (tl.load(exponents_ptr + at, mask=mask, other=0) - highest[None, :]).to(tl.float32)
        shrink = tl.exp2(exponent)
        masses = tl.load(statistics_ptr + at, mask=mask, other=0.0) * shrink
        moments = tl.load(statistics_ptr + every + at, mask=mask, other=0.0) * shrink
        mass += tl.sum(masses, axis=0)
        moment += tl.sum(moments + exponent * masses, axis=0)
        bests = tl.load(statistics_ptr + 2 * every + at, mask=mask, other=float("-inf"))
        keys = tl.load(statistics_ptr + 3 * every + at, mask=mask, other=float("-inf"))
        new_best, best_tile = tl.max(bests, axis=0, return_indices=True)
        new_drawn, drawn_tile = tl.max(keys, axis=0, return_indices=True)
        at_best = tl.minimum(start + best_tile, tiles - 1) * positions + position
        at_drawn = tl.minimum(start + drawn_tile, tiles - 1) * positions + position
        best_token = tl.where(new_best > best, tl.load(tokens_ptr + at_best, mask=inside, other=0), best_token)
        drawn_token = tl.where(
            new_drawn > drawn, tl.load(tokens_ptr + every + at_drawn, mask=inside, other=0), drawn_token
        )
        best = tl.maximum(best, new_best)
        drawn = tl.maximum(drawn, new_drawn)
    mass = tl.where(inside, mass, 1.0)
    logsumexp = LN2 * (tl.log2(mass) + (highest - BIAS).to(tl.float32))
    entropy = tl.maximum(LN2 * (tl.log2(mass) - moment / mass), 0.0)
    probability = tl.exp2(best - (highest - BIAS).to(tl.float32)) / mass
    if HAS_PINNED:
        pinned = tl.load(pinned_ptr + position, mask=inside, other=-1)
        held = pinned >= 0
        best_token = tl.where(held, pinned, best_token)
        drawn_token = tl.where(held, pinned, drawn_token)
        entropy = tl.where(held, 0.0, entropy)
        probability = tl.where(held, 1.0, probability)
    tl.store(argmax_ptr + position, best_token.to(tl.int64), mask=inside)
    tl.store(candidate_ptr + position, drawn_token.to(tl.int64), mask=inside)
    tl.store(entropy_ptr + position, entropy, mask=inside)
    tl.store(probability_ptr + position, probability, mask=inside)
    tl.store(logsumexp_ptr + position, logsumexp, mask=inside)
    finite = (mass > 0) & (mass < float("inf"))
    tl.atomic_max(nonfinite_ptr, tl.max(tl.where(inside & (finite == 0), 1, 0), axis=0))
    for start in range(0, K, BLOCK):
        column = start + tl.arange(0, BLOCK)
        there = inside[:, None] & (column < K)[None, :]
        place = position[:, None] * K + column[None, :]
        total = tl.zeros((N, BLOCK), tl.float32)
        for split in tl.static_range(SPLITS):
            total += tl.load(soft_parts_ptr + split * positions * K + place, mask=there, other=0.0)
        total /= mass[:, None]
        if HAS_PINNED:
            row = tl.load(table_ptr + pinned[:, None] * K + column[None, :], mask=there & held[:, None], other=0)
            row = row.to(tl.float32)
            if HAS_SCALES:
                row *= tl.load(scales_ptr + pinned, mask=held, other=0.0)[:, None]
            total = tl.where(held[:, None], row, total)
        total *= embed_scale
        tl.store(soft_ptr + place, total.to(soft_ptr.dtype.element_ty), mask=there)


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
    chunk_tiles: int | None = None,
    splits: int | None = None,
) -> VocabularyResult:
    """Runs the vocabulary stage of a denoising step.

    Reads nothing back to the host, so that it can be captured in a graph.

    Args:
        hidden: (C, H) after the final norm, contiguous.
        table: int8 codes (V, H) with fp32 scales (1, V), or the table itself (V, H) in hidden's type.
        temperature: fp32 (1,) on the device; divides the soft-capped logits. (C,) if each position has its own.
        draw: int64 (2,) on the device: seed, and a step that never repeats under it. (C, 3) if each position has its
            own, then with its place in its canvas; contiguous. Either both are of each position, or none is.
        cap: soft cap of the logits.
        embed_scale: factor of the expected table row, sqrt(H).
        forbidden: (V,) bool, True where a token may not be taken; None: all may.
        pinned: (C,) int32, the fixed token of a position, forbidden or not; -1 if it is free.
        chunk_tiles: tiles of 128 tokens in a chunk; None: two rounds of the device's processors.
        splits: parts of a chunk that are summed separately; None: enough to fill the device.
    """
    codes = table.codes if isinstance(table, Packed) else table
    scales = table.scales if isinstance(table, Packed) else None
    positions, size = hidden.shape
    vocabulary, device = codes.shape[0], hidden.device
    tiles = triton.cdiv(vocabulary, TILE_TOKENS)
    block = token_block(positions)
    columns = triton.cdiv(positions, block)
    hidden_tiles = triton.cdiv(size, BLOCK_HIDDEN)
    chunk_tiles = min(tiles, chunk_tiles or WAVES * max(1, processors(device) // columns))
    splits = splits or max(1, processors(device) // (columns * hidden_tiles))
    chunks = triton.cdiv(tiles, chunk_tiles)

    def buffer(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    weights = buffer(positions, chunk_tiles * TILE_TOKENS, dtype=hidden.dtype)
    exponents = buffer(tiles, positions, dtype=torch.int32)
    tokens = buffer(2, tiles, positions, dtype=torch.int32)
    statistics = buffer(STATISTICS, tiles, positions)
    soft_parts = buffer(splits, positions, size)
    zeroed = torch.zeros((chunks + 1) * positions + 1, dtype=torch.int32, device=device)
    highest, nonfinite = zeroed[:-1].view(chunks + 1, positions), zeroed[-1:]
    result = VocabularyResult(
        argmax=buffer(positions, dtype=torch.int64),
        candidate=buffer(positions, dtype=torch.int64),
        entropy=buffer(positions),
        probability=buffer(positions),
        logsumexp=buffer(positions),
        soft=torch.empty_like(hidden),
        nonfinite=nonfinite,
    )
    shape = {"V": vocabulary, "K": size, "CHUNK": weights.shape[1]}
    options = {"num_warps": 8, "num_stages": STAGES, "enable_fp_fusion": True}
    for chunk in range(chunks):
        first = chunk * chunk_tiles
        count = min(chunk_tiles, tiles - first)
        score_kernel[(columns, count)](
            hidden, codes, scales, forbidden, temperature, draw,
            weights, exponents, tokens, statistics, highest[chunk], positions, first, tiles, cap,
            **shape, HAS_SCALES=scales is not None, HAS_FORBIDDEN=forbidden is not None, EACH=draw.dim() == 2,
            M=block, N=TILE_TOKENS, BLOCK=BLOCK_K, **options,
        )  # fmt: skip
        embed_kernel[(columns, hidden_tiles, splits)](
            weights, codes, exponents, highest[chunk], soft_parts, positions, first, count,
            **shape, TILE=TILE_TOKENS, SPLITS=splits, FIRST=chunk == 0,
            M=block, N=BLOCK_HIDDEN, BLOCK=BLOCK_K, **options,
        )  # fmt: skip
    merge_kernel[(triton.cdiv(positions, MERGE_POSITIONS),)](
        exponents, tokens, statistics, highest[chunks], soft_parts, codes, scales, pinned,
        result.argmax, result.candidate, result.entropy, result.probability, result.logsumexp,
        result.soft, nonfinite,
        positions, tiles, embed_scale,
        K=size, SPLITS=splits, HAS_SCALES=scales is not None, HAS_PINNED=pinned is not None,
        TILES=MERGE_TILES, N=MERGE_POSITIONS, BLOCK=BLOCK_HIDDEN,
        num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
    return result
