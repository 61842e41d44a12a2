"""Compares a kernel with its oracle on random operands: its error, the same bits each time, and none mixed up.

A small error alone proves little if operands are alike. So an oracle is also given operands that a wrong kernel
might have used, such as the scales of the neighbouring rows. These results must be much further from the right one
than the tolerance, or the check could not distinguish them from rounding. All scales of random operands differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.quant import Packed, Scheme

Outputs = tuple[Tensor, ...]
Work = Callable[[], Outputs]
MARGIN = 5.0  # in tolerances: minimum error with mixed-up operands
ROW, COLUMN = 4.0, 6.0  # in tolerances: maximum error of the worst row or column
LIKE = 3.0  # factor by which a suspect result is nearer to a mix-up's than to the right one
EXACT = 1e-12  # share of a tolerance


@dataclass(frozen=True)
class OracleCheck:
    """A kernel and its oracle on the same operands."""

    run: Work
    oracle: Work  # in fp32
    mixups: Mapping[str, Work]  # name of a mistake -> the oracle's result with it
    tolerances: tuple[float, ...]  # per output: relative; for integers the share that may differ


Mistakes = dict[str, tuple[int, Callable[[Any], Any]]]
"""The name of a mistake -> which operand a wrong kernel would have changed, and how."""


def against(
    run: Callable[..., Any],
    oracle: Callable[..., Any],
    operands: Sequence[Any],
    mistakes: Mistakes,
    tolerances: tuple[float, ...],
) -> OracleCheck:
    """Returns the check of ``run`` on operands; its oracle takes their numbers in fp32."""

    def work(which: int = -1, change: Callable[[Any], Any] | None = None) -> Outputs:
        given = [change(each) if change and index == which else each for index, each in enumerate(operands)]
        return _outputs(oracle(*map(_exact, given)))

    mixups = {name: partial(work, *mistake) for name, mistake in mistakes.items()}  # made late: codes take 0.3 GB
    return OracleCheck(lambda: _outputs(run(*operands)), work, mixups, tolerances)


def _exact(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(_exact, operand))
    return operand.float() if isinstance(operand, Tensor) and operand.is_floating_point() else operand


def _outputs(outputs: Tensor | Outputs) -> Outputs:
    return (outputs,) if isinstance(outputs, Tensor) else outputs


@dataclass(frozen=True)
class OracleResult:
    ok: bool
    error: float  # relative, of the output nearest its tolerance
    said: str  # the problem, in words


def judge(check: OracleCheck, repeats: int, with_mixups: bool = True) -> OracleResult:
    """Runs a kernel ``repeats`` times and compares it with its oracle."""
    want = check.oracle()
    if want[0].is_cuda:
        _poison(want[0].device)
    outputs = tuple(output.clone() for output in check.run())
    error, strain = _furthest(outputs, want, check.tolerances)
    differing = sum(not all(map(torch.equal, outputs, check.run())) for _ in range(repeats - 1))
    if strain > 1.0:
        return OracleResult(False, error, f"off by {error:.2%} from the oracle{_suspect(check, outputs, error)}")
    if differing:
        return OracleResult(False, error, f"other bits in {differing} of {repeats - 1} repeats")
    said = f"off by {error:.2g}"
    if repeats > 1:
        said += f", same bits {repeats} times"
    if with_mixups and check.mixups:
        distances = {name: _furthest(work(), want, check.tolerances) for name, work in check.mixups.items()}
        name, (distance, nearest) = min(distances.items(), key=lambda item: item[1][1])
        if nearest < MARGIN:
            said += f", but {name} would be off by {distance:.2%} only: nothing is proven"
            return OracleResult(False, error, said)
        said += f"; {name} would be off by {distance:.2g}"
    return OracleResult(True, error, said)


def distance(output: Tensor, want: Tensor) -> float:
    """Returns the relative error of an output, infinite if it is not finite; a row or column may be off by more."""
    if output.shape != want.shape:
        return float("inf")
    if not want.is_floating_point():
        return float((output.long() != want.long()).double().mean())
    output, want = (x.double().reshape(-1, x.shape[-1]) for x in (output, want))
    gap = output - want
    usual = want.square().mean().sqrt().clamp_min(1e-30)  # a row or column may happen to be small
    whole = gap.square().mean().sqrt() / usual
    row = gap.square().mean(dim=1).sqrt().max() / usual / ROW
    column = gap.square().mean(dim=0).sqrt().max() / usual / COLUMN
    worst = float(torch.stack([whole, row, column]).max())
    return worst if worst == worst else float("inf")


def _furthest(outputs: Outputs, want: Outputs, tolerances: tuple[float, ...]) -> tuple[float, float]:
    """Returns the error of the output furthest beyond its tolerance, and that error in tolerances."""
    distances = [
        (distance(one, other), tolerance) for one, other, tolerance in zip(outputs, want, tolerances, strict=True)
    ]
    return max(((off, off / tolerance) for off, tolerance in distances), key=lambda each: each[1])


def _suspect(check: OracleCheck, outputs: Outputs, error: float) -> str:
    """Returns the mix-up that explains the result much better than the right operands, if any."""
    for name, work in check.mixups.items():
        if _furthest(outputs, work(), check.tolerances)[0] <= error / LIKE:
            return f"; it is much like what {name} would give"
    return ""


def _poison(device: torch.device) -> None:
    """Fills memory that will hold the results with NaN, so that unwritten results show."""
    for size in (1 << 28, 1 << 26, 1 << 24, 1 << 22, 1 << 19):
        kept = [torch.full((size // 4,), float("nan"), device=device) for _ in range(3)]
        del kept


CONTEXT = 40  # tokens before the canvas


def tolerance(dtype: torch.dtype) -> float:
    """Returns the relative error allowed for a product's rounding."""
    return 0.02 if dtype == torch.bfloat16 else 1e-4


def draws(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def normal(*shape: int, device: torch.device, dtype: torch.dtype, seed: int, scale: float = 1.0) -> Tensor:
    """Draws normally distributed numbers."""
    return (torch.randn(shape, generator=draws(device, seed), device=device) * scale).to(dtype)


def packed(*shape: int, scheme: Scheme, device: torch.device, seed: int, matrices: int = 1) -> Packed:
    """Draws a packed weight (..., out, in) of random codes; products with normal numbers are about normal."""
    random = draws(device, seed)
    limits = torch.iinfo(scheme.codes_dtype)
    low, high = max(limits.min, -limits.max), limits.max + 1
    codes = torch.empty(scheme.codes_shape(shape), dtype=scheme.codes_dtype, device=device)
    for part in codes.view(-1, *codes.shape[-2:]):  # one expert at a time: random numbers take twice the memory
        part.copy_(torch.randint(low, high, part.shape, generator=random, device=device, dtype=torch.int16))
    *outer, rows, inputs = shape

    def factors(*size: int) -> Tensor:
        return torch.randn(size, generator=random, device=device).mul_(0.35).exp_()

    scales, size = factors(*outer, inputs // (scheme.group_size or inputs), rows), inputs**-0.5 / scheme.spread
    own = factors(*outer, matrices) * size if scheme.has_matrix_scales else None
    stored = scheme.store_scales((scales if own is not None else scales * size).transpose(-1, -2))
    return Packed(codes, stored.contiguous(), scheme, own)


def routing(tokens: int, experts: int, top_k: int, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
    """Draws weights (N, K) fp32 that sum to 1, and experts (N, K), as from a router."""
    scores = torch.randn(tokens, experts, generator=draws(device, seed), device=device)
    weights, chosen = scores.softmax(-1).topk(top_k, -1)
    return weights / weights.sum(-1, keepdim=True), chosen


def other_scales(weight: Packed, dim: int = -1) -> Packed:
    """Returns a weight with the scales of the neighbouring rows, or, with ``dim`` -2, groups or words of them."""
    return replace(weight, scales=weight.scales.roll(1, dim))


def other_matrix_scales(weight: Packed, dim: int) -> Packed:
    """Returns a weight with the matrix scales of other experts, or, with ``dim`` -1, of an expert's other matrix."""
    assert weight.matrix_scales is not None
    return replace(weight, matrix_scales=weight.matrix_scales.roll(1, dim))
