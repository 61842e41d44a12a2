"""Checks of the attention and norm kernels. Oracles are ``reference_step``'s, given operands in fp32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from engine.checks.oracle import OracleCheck, Outputs, Work
from engine.checks.product_checks import tolerance
from engine.kernels import reference_step as plain

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, int, int | None], Tensor]
Norm = Callable[[Tensor, Tensor, float], Tensor]
AddNorm = Callable[[Tensor, Tensor, Tensor, Tensor, float], Outputs]
MergeNorm = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int, float], Outputs]
HeadNormRope = Callable[..., Tensor]
EPS = 1e-6


def attention_check(
    run: Attend, queries: Tensor, keys: Tensor, values: Tensor, bounds: tuple[int, int], text: int, window: int | None
) -> OracleCheck:
    """Checks ``attend``: queries (heads, T, D), keys and values (kv_heads, S, D), of which ``bounds`` are valid.

    Values outside the bounds are set to NaN. The first and the last valid key get large values, so that
    omitting one of them shows among thousands.
    """
    first, end = bounds
    lowest = first if window is None or not text else min(first, max(0, end - queries.shape[1] - window + 1))
    values[:, [first, end - 1]] *= max(1.0, (end - first) / 40)
    for buffer in (keys, values):
        buffer[:, end:] = float("nan")
        buffer[:, :lowest] = float("nan")
    span = torch.tensor(bounds, dtype=torch.int32, device=queries.device)
    seen, said = (buffer.float().nan_to_num() for buffer in (keys, values))

    def oracle(queries: Tensor, keys: Tensor, values: Tensor, bounds: tuple[int, int], text: int) -> Work:
        span = torch.tensor(bounds, dtype=torch.int32, device=queries.device)
        return lambda: (plain.attention(queries.float(), keys, values, span, text, window if text else None),)

    mixups = {
        "the neighbouring head": oracle(queries.roll(1, 0), seen, said, bounds, text),
        "the neighbouring key's value": oracle(queries, seen, said.roll(1, 1), bounds, text),
    }
    if text:
        mixups["text that sees all"] = oracle(queries, seen, said, bounds, 0)
    else:
        mixups["the first key left out"] = oracle(queries, seen, said, (first + 1, end), text)
        last_out = said.clone()
        last_out[:, end - 1] = 0
        mixups["the last value left out"] = oracle(queries, seen, last_out, bounds, text)
    return OracleCheck(
        run=lambda: (run(queries, keys, values, span, text, window if text else None),),
        oracle=oracle(queries, seen, said, bounds, text),
        mixups=mixups,
        tolerances=(tolerance(queries.dtype),),
    )


def norm_check(run: Norm, x: Tensor, weight: Tensor) -> OracleCheck:
    """Checks ``norm``: x (N, H), a weight (H,)."""

    def oracle(x: Tensor, weight: Tensor) -> Work:
        return lambda: (plain.norm(x, weight, EPS),)

    return OracleCheck(
        run=lambda: (run(x, weight, EPS),),
        oracle=oracle(x, weight),
        mixups={
            "the neighbouring weight": oracle(x, weight.roll(1)),
            "the neighbouring token": oracle(x.roll(1, 0), weight),
        },
        tolerances=(tolerance(x.dtype),),
    )


def add_norm_check(run: AddNorm, x: Tensor, y: Tensor, post: Tensor, pre: Tensor) -> OracleCheck:
    """Checks ``add_norm``: x and y (N, H), weights (H,) and (P, H)."""

    def oracle(x: Tensor, y: Tensor, post: Tensor, pre: Tensor) -> Work:
        return lambda: plain.add_norm(x.float(), y.float(), post, pre, EPS)

    return OracleCheck(
        run=lambda: run(x, y, post, pre, EPS),
        oracle=oracle(x, y, post, pre),
        mixups={
            "the neighbouring token": oracle(x, y.roll(1, 0), post, pre),
            "another norm's weights": oracle(x, y, post, pre.roll(1, 0)),
            "the neighbouring weight": oracle(x, y, post.roll(1), pre),
        },
        tolerances=(tolerance(x.dtype),) * 2,
    )


def merge_norm_check(
    run: MergeNorm, x: Tensor, dense: Tensor, sparse: Tensor, weights: Tensor, scalars: Tensor, text: int
) -> OracleCheck:
    """Checks ``merge_norm``: x and dense (N, H), sparse (N * K, H), weights (4, H), scalars (2,)."""

    def oracle(dense: Tensor, sparse: Tensor, weights: Tensor, scalars: Tensor) -> Work:
        parts = (x.float(), dense.float(), sparse.float())
        return lambda: plain.merge_norm(*parts, weights, scalars, text, EPS)

    return OracleCheck(
        run=lambda: run(x, dense, sparse, weights, scalars, text, EPS),
        oracle=oracle(dense, sparse, weights, scalars),
        mixups={
            "another token's experts": oracle(dense, sparse.roll(1, 0), weights, scalars),
            "another token's dense output": oracle(dense.roll(1, 0), sparse, weights, scalars),
            "another norm's weights": oracle(dense, sparse, weights.roll(1, 0), scalars),
            "text's scalar for the canvas's": oracle(dense, sparse, weights, scalars.flip(0)),
        },
        tolerances=(tolerance(x.dtype),) * 2,
    )


def head_norm_rope_check(
    run: HeadNormRope,
    projected: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    end: int,
    capacity: int,
) -> OracleCheck:
    """Checks ``head_norm_rope``: queries, keys and values (T, heads * D) as projected; outputs all three."""
    size, device = rope[0].shape[1], rope[0].device
    kv_heads = projected[1].shape[1] // size
    place = torch.tensor([end], dtype=torch.int32, device=device)

    def outputs(
        norm: HeadNormRope,
        projected: tuple[Tensor, ...],
        weights: tuple[Tensor, Tensor],
        rope: tuple[Tensor, Tensor],
        place: Tensor,
    ) -> Outputs:
        dtype = projected[0].dtype
        buffers = tuple(torch.full((kv_heads, capacity, size), 1.0, dtype=dtype, device=device) for _ in range(2))
        return norm(*projected, weights, rope, buffers, place, EPS), *buffers

    oracle, parts = partial(outputs, plain.head_norm_rope), tuple(part.float() for part in projected)
    queries, keys, values = parts
    return OracleCheck(
        run=partial(outputs, run, projected, weights, rope, place),
        oracle=partial(oracle, parts, weights, rope, place),
        mixups={
            "keys for values": partial(oracle, (queries, values, keys), weights, rope, place),
            "the queries' weights for keys": partial(oracle, parts, weights[::-1], rope, place),
            "the neighbouring token's turn": partial(oracle, parts, weights, tuple(t.roll(1, 0) for t in rope), place),
            "the place behind": partial(oracle, parts, weights, rope, place + 1),
        },
        tolerances=(tolerance(projected[0].dtype),) * 3,
    )
