"""Checks of the kernels that multiply by packed weights, and of the sort before them. Oracles are ``reference``'s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.checks.operands import other_matrix_scales, other_scales
from engine.checks.oracle import EXACT, OracleCheck, Outputs, Work
from engine.kernels import reference
from engine.quant import Packed
from engine.quant.uint4 import rounded

Linear = Callable[[Tensor, Packed], Tensor]
Experts = Callable[[Tensor, Tensor, Tensor, Packed, Packed], Tensor]
Group = Callable[[Tensor, int, int], Outputs]


def tolerance(dtype: torch.dtype) -> float:
    """Returns the relative error allowed for a product's rounding."""
    return 0.02 if dtype == torch.bfloat16 else 1e-4


def linear_check(run: Linear, x: Tensor, weight: Packed, oracle: Linear = reference.linear) -> OracleCheck:
    """Checks ``linear``: x (N, in), a packed weight (out, in)."""

    def work(x: Tensor, weight: Packed) -> Work:
        return lambda: (oracle(x.float(), weight),)

    mixups = {"the neighbouring rows' scales": work(x, other_scales(weight))}
    if len(x) > 1:
        mixups["the neighbouring token"] = work(x.roll(1, 0), weight)
    mixups["the neighbouring input"] = work(x.roll(1, -1), weight)
    if weight.matrix_scales is not None:
        mixups["no scale of the matrix"] = work(x, replace(weight, matrix_scales=None))
    if weight.scales.shape[0] > 1:
        mixups["the neighbouring groups' scales"] = work(x, other_scales(weight, -2))
    return OracleCheck(
        run=lambda: (run(x, weight),),
        oracle=work(x, weight),
        mixups=mixups,
        tolerances=(tolerance(x.dtype) / 2,),
    )


def linear_uint4(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies x (N, in) by a ``UINT4`` (out, in) as kernels read it -> (N, out)."""
    return F.linear(x, rounded(weight).to(x.dtype))


def linear_int8_check(run: Linear, x: Tensor, weight: Packed, oracle: Linear = reference.linear_int8) -> OracleCheck:
    """Checks ``linear_int8``: x (N, in) of several groups of different magnitude, and an 8-bit weight (out, in)."""
    check = linear_check(run, x, weight, oracle)

    def other_groups() -> Outputs:
        codes, scales = reference.quantize_rows(x)
        wide = scales.roll(1, 0).movedim(0, -1).repeat_interleave(reference.GROUP, dim=-1)
        return (oracle(codes * wide[:, : x.shape[-1]], weight),)

    return replace(check, mixups={**check.mixups, "the neighbouring groups' scales of a token": other_groups})


def gated(x: Tensor, weight: Packed, product: Linear = reference.linear) -> Tensor:
    """Computes GELU(gate) * up by ``linear_w8a16`` of gates and ups."""
    gate, up = product(x, weight).chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * up


def experts_check(
    run: Experts,
    x: Tensor,
    weights: Tensor,
    chosen: Tensor,
    gate_up: Packed,
    down: Packed,
    plain: Experts = reference.experts,
) -> OracleCheck:
    """Checks ``experts``: x (N, H), routing (N, K), 4-bit (E, 2I, H) and (E, H, I); ``plain`` in fp32."""

    half = gate_up.shape[-2] // 2

    def exchanged() -> Packed:
        own = None if gate_up.matrix_scales is None else gate_up.matrix_scales.roll(1, -1)
        codes, scales = gate_up.codes.roll(half, -2), gate_up.scales.roll(half, -1)
        return replace(gate_up, codes=codes, scales=scales, matrix_scales=own)

    def oracle(make: Callable[[], tuple[Tensor, Tensor, Packed, Packed]]) -> Work:
        return lambda: (plain(x.float(), *make()),)  # created late: other codes take 0.3 GB

    mixups = {
        "the neighbouring expert": oracle(lambda: (weights, (chosen + 1) % down.shape[0], gate_up, down)),
        "another choice's weight": oracle(lambda: (weights.roll(1, -1), chosen, gate_up, down)),
        "the neighbouring rows' scales of gate and up": oracle(lambda: (weights, chosen, other_scales(gate_up), down)),
        "the neighbouring rows' scales of down": oracle(lambda: (weights, chosen, gate_up, other_scales(down))),
        "gate for up": oracle(lambda: (weights, chosen, exchanged(), down)),
    }
    if gate_up.matrix_scales is not None and down.matrix_scales is not None:
        mixups["gate's own scales for up"] = oracle(lambda: (weights, chosen, other_matrix_scales(gate_up, -1), down))
        mixups["the neighbouring expert's own scales of gate and up"] = oracle(
            lambda: (weights, chosen, other_matrix_scales(gate_up, 0), down)
        )
        mixups["the neighbouring expert's own scale of down"] = oracle(
            lambda: (weights, chosen, gate_up, other_matrix_scales(down, 0))
        )
    if gate_up.scales.shape[-2] > 1:
        mixups["the neighbouring groups' scales of gate and up"] = oracle(
            lambda: (weights, chosen, other_scales(gate_up, -2), down)
        )
    if down.scales.shape[-2] > 1:
        mixups["the neighbouring groups' scales of down"] = oracle(
            lambda: (weights, chosen, gate_up, other_scales(down, -2))
        )
    return OracleCheck(
        run=lambda: (run(x, weights, chosen, gate_up, down),),
        oracle=oracle(lambda: (weights, chosen, gate_up, down)),
        mixups=mixups,
        tolerances=(tolerance(x.dtype),),
    )


def sort_check(run: Group, chosen: Tensor, experts: int, block: int) -> OracleCheck:
    """Checks ``group``: pairs by expert, the start of each expert's pairs, and the tiles in use."""

    def used(pairs: Tensor, offsets: Tensor, tiles: Tensor) -> Outputs:
        return pairs, offsets, tiles[tiles[:, 0] >= 0]

    def oracle(chosen: Tensor) -> Work:
        return lambda: sorted_pairs(chosen, experts, block)

    return OracleCheck(
        run=lambda: used(*run(chosen, experts, block)),
        oracle=oracle(chosen),
        mixups={"the neighbouring expert": oracle((chosen + 1) % experts)},
        tolerances=(EXACT, EXACT, EXACT),
    )


def sorted_pairs(chosen: Tensor, experts: int, block: int) -> Outputs:
    """Sorts pairs as ``expert_sort.group`` does, in plain torch."""
    flat = chosen.flatten().cpu()
    starts = [0, *torch.bincount(flat, minlength=experts).cumsum(0).tolist()]
    tiles = [(expert, at) for expert in range(experts) for at in range(starts[expert], starts[expert + 1], block)]
    pairs = flat.sort(stable=True).indices
    return pairs.to(chosen.device), torch.tensor(starts).to(chosen.device), torch.tensor(tiles).to(chosen.device)


def decode_check(
    run: Callable[..., Tensor],
    values: Tensor,
    dtype: torch.dtype,
    scale_dtype: torch.dtype = torch.bfloat16,
    has_eights: bool = False,
) -> OracleCheck:
    """Checks decoding, bit for bit: every word of four codes, with scales of their own.

    Args:
        run: words (R, 16) int16 and the scales (R,) bf16 of low and high codes, with ``has_eights`` then the numbers to
            add to them -> weights (4, R, 16).
        values: (16,) fp32 values of the codes, rounded as in the kernel.
        dtype: of the weights.
        scale_dtype: the number format of the scales.
    """
    device = values.device
    words = torch.arange(65_536, device=device).view(4096, 16)
    low, high, *eights = (
        torch.randn(4096, generator=torch.Generator(device=device).manual_seed(seed), device=device)
        .to(scale_dtype)
        .bfloat16()
        for seed in ((3, 4, 5, 6) if has_eights else (3, 4))
    )
    added = [each.double()[:, None] for each in eights] or [torch.tensor(-0.0, device=device)] * 2  # -0 changes nothing

    def oracle(low: Tensor, high: Tensor, shifts: tuple[int, ...] = (0, 8, 4, 12)) -> Work:
        halves = [(low, added[0])] * 2 + [(high, added[1])] * 2
        return lambda: (
            torch.stack(
                [
                    (values[words >> shift & 15] * scales.float()[:, None] + more).to(dtype)
                    for shift, (scales, more) in zip(shifts, halves, strict=True)
                ]
            ).view(torch.int16 if dtype == torch.bfloat16 else torch.int32),
        )

    signed = torch.where(words > 32_767, words - 65_536, words).to(torch.int16)
    return OracleCheck(
        run=lambda: (run(signed, low, high, *eights).view(torch.int16 if dtype == torch.bfloat16 else torch.int32),),
        oracle=oracle(low, high),
        mixups={
            "low for high scales": oracle(high, low),
            "the neighbouring rows' scales": oracle(low.roll(1), high.roll(1)),
            "another order of codes": oracle(low, high, (0, 4, 8, 12)),
        },
        tolerances=(EXACT,),
    )
