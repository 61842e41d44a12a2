"""Checks of kernels against their oracles, which are those of ``reference`` and ``reference_step``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.checks.oracle import (
    EXACT,
    Mistakes,
    OracleCheck,
    Outputs,
    against,
    other_matrix_scales,
    other_scales,
    tolerance,
)
from engine.config import Activation
from engine.kernels import reference
from engine.kernels import reference_step as plain
from engine.kernels.reference_step import VocabularyResult
from engine.layers.rope import cos_sin
from engine.quant import UINT4, Packed, unpack
from engine.quant.integers import rounded

Linear = Callable[[Tensor, Packed], Tensor]
ExpertOperands = tuple[Tensor, Tensor, Tensor, Packed, Packed]
CAP = 30.0
CANVASES = 3  # whose rows go through the vocabulary stage in one pass


def linear_check(run: Linear, x: Tensor, weight: Packed, oracle: Linear = reference.linear) -> OracleCheck:
    """Checks ``linear``: x (N, in), a packed weight (out, in)."""
    mistakes: Mistakes = {
        "the neighbouring rows' scales": (1, other_scales),
        "the neighbouring input": (0, lambda x: x.roll(1, -1)),
    }
    if len(x) > 1:
        mistakes |= {"the neighbouring token": (0, lambda x: x.roll(1, 0))}
    if weight.matrix_scales is not None:
        mistakes |= {"no scale of the matrix": (1, lambda weight: replace(weight, matrix_scales=None))}
    if weight.scales.shape[0] > 1:
        mistakes |= {"the neighbouring groups' scales": (1, partial(other_scales, dim=-2))}
    if weight.scheme == UINT4:  # kernels round its values
        oracle = _linear_uint4
    return against(run, oracle, (x, weight), mistakes, (tolerance(x.dtype) / 2,))


def _linear_uint4(x: Tensor, weight: Packed) -> Tensor:
    return F.linear(x, rounded(weight).to(x.dtype))


def experts_check(run: Callable[..., Tensor], operands: ExpertOperands, activation: Activation) -> OracleCheck:
    """Checks ``experts``: x (N, H), routing (N, K), packed (E, 2I, H) and (E, H, I)."""
    x, _, _, gate_up, down = operands

    def exchanged(gate_up: Packed) -> Packed:
        half, own = gate_up.shape[-2] // 2, gate_up.matrix_scales
        codes, scales = gate_up.codes.roll(half, -2), gate_up.scales.roll(half, -1)
        return replace(gate_up, codes=codes, scales=scales, matrix_scales=None if own is None else own.roll(1, -1))

    mistakes: Mistakes = {
        "the neighbouring expert": (2, lambda chosen: (chosen + 1) % down.shape[0]),
        "another choice's weight": (1, lambda weights: weights.roll(1, -1)),
        "the neighbouring rows' scales of gate and up": (3, other_scales),
        "the neighbouring rows' scales of down": (4, other_scales),
        "gate for up": (3, exchanged),
    }
    for place, name, weight in ((3, "gate and up", gate_up), (4, "down", down)):
        if weight.matrix_scales is not None:
            own = partial(other_matrix_scales, dim=0)
            mistakes |= {f"the neighbouring expert's own scales of {name}": (place, own)}
        if weight.scales.shape[-2] > 1:
            mistakes |= {f"the neighbouring groups' scales of {name}": (place, partial(other_scales, dim=-2))}
    if gate_up.matrix_scales is not None:
        mistakes |= {"gate's own scales for up": (3, partial(other_matrix_scales, dim=-1))}
    return against(run, partial(reference.experts, activation=activation), operands, mistakes, (tolerance(x.dtype),))


def sort_check(run: Callable[[Tensor, int, int], Outputs], chosen: Tensor, experts: int, block: int) -> OracleCheck:
    """Checks ``group``: pairs by expert, the start of each expert's pairs, and the tiles in use."""

    def used(*operands: object) -> Outputs:
        pairs, offsets, tiles = run(*operands)  # type: ignore[arg-type]
        return pairs, offsets, tiles[tiles[:, 0] >= 0]

    mistakes: Mistakes = {"the neighbouring expert": (0, lambda chosen: (chosen + 1) % experts)}
    return against(used, sorted_pairs, (chosen, experts, block), mistakes, (EXACT, EXACT, EXACT))


def sorted_pairs(chosen: Tensor, experts: int, block: int) -> Outputs:
    """Sorts pairs as ``router.group`` does, in plain torch."""
    flat = chosen.flatten().cpu()
    starts = [0, *torch.bincount(flat, minlength=experts).cumsum(0).tolist()]
    tiles = [(expert, at) for expert in range(experts) for at in range(starts[expert], starts[expert + 1], block)]
    pairs = flat.sort(stable=True).indices
    return pairs.to(chosen.device), torch.tensor(starts).to(chosen.device), torch.tensor(tiles).to(chosen.device)


def vocabulary_check(
    run: Callable[..., VocabularyResult],
    hidden: Tensor,
    table: Packed,
    rough: tuple[float, float] = (0.02, 0.05),
    canvases: int = 1,
) -> OracleCheck:
    """Checks ``vocabulary_stage``: hidden (C, H), a packed table (V, H).

    Some tokens are forbidden, some positions pinned. Each of several ``canvases`` has some of the rows, in turn, and
    its own temperature and draw. In bf16 two tokens may be nearly tied: ``rough`` are the shares of best tokens and of
    draws that may differ.
    """
    device, rows = hidden.device, torch.arange(len(hidden), device=hidden.device)
    own = rows % canvases
    forbidden = torch.arange(table.shape[0], device=device) % 3 == 1 if canvases == 1 else None
    pinned = torch.where(rows % 7 == 1, rows * 3, -1).int() if canvases == 1 else None

    def stage(of: Callable[..., VocabularyResult], hidden: Tensor, table: Packed, step: int, shift: int) -> Outputs:
        if canvases == 1:
            temperature, draw = torch.full((1,), 0.6, device=device), torch.tensor([(1 << 40) + 7, step], device=device)
        else:
            turn = own.roll(shift)
            temperature = 0.5 + 0.1 * turn
            draw = torch.stack([(1 << 40) + turn, step + turn, rows // canvases], dim=1)
        result = of(
            hidden,
            table,
            temperature=temperature,
            draw=draw,
            cap=CAP,
            embed_scale=hidden.shape[1] ** 0.5,
            forbidden=forbidden,
            pinned=pinned,
        )
        numbers = (part[None] for part in (result.entropy, result.probability, result.logsumexp))
        return result.argmax, result.candidate, *numbers, result.soft, result.nonfinite

    mistakes: Mistakes = {
        "the neighbouring tokens' scales": (1, other_scales),
        "the neighbouring position": (0, lambda hidden: hidden.roll(1, 0)),
        "another step's draw": (2, lambda step: step + 1),
        **({"another run's settings": (3, lambda shift: shift + 1)} if canvases > 1 else {}),
    }
    is_rough = hidden.dtype == torch.bfloat16
    ties = rough if is_rough else (EXACT, EXACT)
    numbers = (0.005, 0.05, 0.005) if is_rough else (1e-4, 1e-4, 1e-4)
    tolerances = (*ties, *numbers, tolerance(hidden.dtype), EXACT)
    both = partial(stage, run), partial(stage, plain.vocabulary_stage)
    return against(*both, (hidden, table, 3, 0), mistakes, tolerances)


Attend = Callable[[Tensor, Tensor, Tensor, Tensor, int, int | None], Tensor]
Run = Callable[..., Any]
EPS = 1e-6
ROLL_ROWS, ROLL = (lambda x: x.roll(1, 0)), (lambda x: x.roll(1, -1))


def attention_check(
    run: Attend, queries: Tensor, keys: Tensor, values: Tensor, bounds: tuple[int, int], text: int, window: int | None
) -> OracleCheck:
    """Checks ``attend``: queries (heads, T, D), keys and values (kv_heads, S, D), of which ``bounds`` are valid.

    Values outside the bounds are set to NaN. The first and the last valid key get large values, so that
    omitting one of them shows among thousands.
    """
    first, end = bounds
    window = window if text else None
    lowest = first if window is None else min(first, max(0, end - queries.shape[1] - window + 1))
    values[:, [first, end - 1]] *= max(1.0, (end - first) / 40)
    for buffer in (keys, values):
        buffer[:, end:] = float("nan")
        buffer[:, :lowest] = float("nan")
    span = torch.tensor(bounds, dtype=torch.int32, device=queries.device)

    def oracle(queries: Tensor, keys: Tensor, values: Tensor, *more: Any) -> Tensor:
        return plain.attention(queries, keys.nan_to_num(), values.nan_to_num(), *more)

    def without_last(values: Tensor) -> Tensor:
        return values.index_fill(1, torch.tensor([end - 1], device=values.device), 0)

    mistakes: Mistakes = {
        "the neighbouring head": (0, ROLL_ROWS),
        "the neighbouring key's value": (2, lambda values: values.roll(1, 1)),
    }
    if text:
        mistakes |= {"text that sees all": (4, lambda _: 0)}
    else:
        later = torch.tensor([1, 0], dtype=torch.int32, device=queries.device)
        mistakes |= {"the first key left out": (3, lambda span: span + later)}
        mistakes |= {"the last value left out": (2, without_last)}
    return against(run, oracle, (queries, keys, values, span, text, window), mistakes, (tolerance(queries.dtype),))


def norm_check(run: Run, x: Tensor, weight: Tensor) -> OracleCheck:
    """Checks ``norm``: x (N, H), a weight (H,)."""
    mistakes: Mistakes = {"the neighbouring weight": (1, ROLL), "the neighbouring token": (0, ROLL_ROWS)}
    return against(run, plain.norm, (x, weight, EPS), mistakes, (tolerance(x.dtype),))


def add_norm_check(run: Run, x: Tensor, y: Tensor, post: Tensor, pre: Tensor) -> OracleCheck:
    """Checks ``add_norm``: x and y (N, H), weights (H,) and (P, H); the last norm in pairs, for experts."""

    def joined(*operands: Any) -> Outputs:
        total, normed = run(*operands, split=True)  # of 32 numbers, the even ones come before the odd ones
        normed[-1] = normed[-1].view(len(x), -1, 2, 16).transpose(-1, -2).reshape(x.shape)
        return total, normed

    mistakes: Mistakes = {
        "the neighbouring token": (1, ROLL_ROWS),
        "another norm's weights": (3, ROLL_ROWS),
        "the neighbouring weight": (2, ROLL),
    }
    return against(joined, plain.add_norm, (x, y, post, pre, EPS), mistakes, (tolerance(x.dtype),) * 2)


def merge_norm_check(
    run: Run, x: Tensor, dense: Tensor, sparse: Tensor, weights: Tensor, scalars: Tensor, text: int
) -> OracleCheck:
    """Checks ``merge_norm``: x and dense (N, H), sparse (N * K, H), weights (4, H), scalars (2,)."""
    mistakes: Mistakes = {
        "another token's experts": (2, ROLL_ROWS),
        "another token's dense output": (1, ROLL_ROWS),
        "another norm's weights": (3, ROLL_ROWS),
        "text's scalar for the canvas's": (4, ROLL),
    }
    operands = x, dense, sparse, weights, scalars, text, EPS
    return against(run, plain.merge_norm, operands, mistakes, (tolerance(x.dtype),) * 2)


def head_norm_rope_check(
    run: Run,
    projected: tuple[Tensor, ...],
    weights: tuple[Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    end: int,
    capacity: int,
) -> OracleCheck:
    """Checks ``head_norm_rope``: queries, keys and values (T, heads * D) as projected; outputs all three."""
    size, device = rope[0].shape[1], rope[0].device
    kv_heads = projected[1].shape[1] // size

    def outputs(of: Run, parts: tuple[Tensor, ...], *more: Any) -> Outputs:
        buffers = tuple(torch.ones(kv_heads, capacity, size, dtype=parts[0].dtype, device=device) for _ in range(2))
        weights, rope, place = more
        return of(*parts, weights, rope, buffers, place, EPS), *buffers

    place = torch.tensor([end], dtype=torch.int32, device=device)
    mistakes: Mistakes = {
        "keys for values": (0, lambda parts: (parts[0], parts[2], parts[1])),
        "the queries' weights for keys": (1, lambda weights: weights[::-1]),
        "the neighbouring token's turn": (2, lambda rope: tuple(map(ROLL_ROWS, rope))),
        "the place behind": (3, lambda place: place + 1),
    }
    both = partial(outputs, run), partial(outputs, plain.head_norm_rope)
    return against(*both, (projected, weights, rope, place), mistakes, (tolerance(rope[0].dtype),) * 3)


def router_check(run: Run, x: Tensor, weight: Tensor, expert_scales: Tensor, top_k: int) -> OracleCheck:
    """Checks ``route``: x (N, H), weight (E, H), scales (E,). In bf16 a fiftieth of the choices may differ."""
    dtype = x.dtype

    def oracle(x: Tensor, weight: Tensor, expert_scales: Tensor, top_k: int) -> Outputs:
        scores = F.linear(x, weight).to(dtype).float()
        best, chosen = scores.softmax(-1).sort(dim=-1, descending=True, stable=True)
        shares = best[:, :top_k] / best[:, :top_k].sum(-1, keepdim=True)
        return shares * expert_scales[chosen[:, :top_k]], chosen[:, :top_k]

    mistakes: Mistakes = {
        "the neighbouring expert's scale": (2, ROLL),
        "the neighbouring expert's row": (1, ROLL_ROWS),
        "the neighbouring input": (0, ROLL),
    }
    tolerances = tolerance(dtype), 0.02 if dtype == torch.bfloat16 else EXACT
    return against(run, oracle, (x, weight, expert_scales, top_k), mistakes, tolerances)


def embed_rows_check(run: Run, ids: Tensor, table: Packed, fed: Tensor, text: int) -> OracleCheck:
    """Checks ``embed_rows``: ids (T,), a packed table (V, H), fed (T - text, H)."""
    scale = fed.shape[1] ** 0.5

    def oracle(ids: Tensor, table: Packed, fed: Tensor, *_: object) -> Tensor:
        rows = unpack(table.part(ids)) * scale
        return torch.cat([rows[:text], plain.norm(rows[text:] + fed, None, EPS)])

    mistakes: Mistakes = {
        "the neighbouring token": (0, ROLL_ROWS),
        "the neighbouring tokens' scales": (1, other_scales),
        "another row's self-conditioning": (2, ROLL_ROWS),
    }
    return against(run, oracle, (ids, table, fed, text, scale, EPS), mistakes, (tolerance(fed.dtype),))


def rope_check(run: Run, frequencies: Tensor, start: int, count: int, dtype: torch.dtype) -> OracleCheck:
    """Checks ``rope_tables``: frequencies (D / 2,) and positions from ``start`` on, also large ones."""

    def oracle(start: Tensor, first: int, count: int, frequencies: Tensor, _: object) -> Outputs:
        return cos_sin(int(start) + first + torch.arange(count, device=start.device), frequencies, torch.float32)

    mistakes: Mistakes = {"the place behind": (1, lambda first: first + 1), "the place before": (1, lambda at: at - 1)}
    place = torch.tensor([start + 3], device=frequencies.device)
    return against(run, oracle, (place, -3, count, frequencies, dtype), mistakes, (tolerance(dtype),) * 2)
