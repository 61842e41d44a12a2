"""Checks of the kernels that multiply by packed weights, of the sort before them, and of the vocabulary stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.checks.operands import other_matrix_scales, other_scales, tolerance
from engine.checks.oracle import EXACT, Mistakes, OracleCheck, Outputs, against
from engine.config import Activation
from engine.kernels import reference
from engine.kernels import reference_step as plain
from engine.kernels.reference_step import VocabularyResult
from engine.quant import UINT4, Packed
from engine.quant.uint4 import rounded

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
    """Sorts pairs as ``expert_sort.group`` does, in plain torch."""
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
        found = of(
            hidden,
            table,
            temperature=temperature,
            draw=draw,
            cap=CAP,
            embed_scale=hidden.shape[1] ** 0.5,
            forbidden=forbidden,
            pinned=pinned,
        )
        numbers = (part[None] for part in (found.entropy, found.probability, found.logsumexp))
        return found.argmax, found.candidate, *numbers, found.soft, found.nonfinite

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
