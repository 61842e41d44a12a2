"""A step's end in one launch: accept, re-noise, test for convergence; writes the results and the next step's inputs.

One program for the whole canvas. A position is accepted by the sum of the entropies below its own. This needs no sort,
as each position is compared with all. Predicted, not measured: 5 µs for 256 positions; as torch operations it is 30
launches.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.reference_step import VocabularyResult

BLOCK = 32  # positions that all others are compared with at a time


@dataclass(frozen=True, eq=False)
class Buffers:
    """The results of a step. C positions; all on the device, contiguous."""

    tokens: Tensor  # (4, C) int64: argmax, candidates, accepted, next canvas
    entropy: Tensor  # (C,) fp32
    flags: Tensor  # (2,) int32: converged; not finite
    canvas: Tensor  # (C,) int64
    previous: Tensor  # (C,) int64, the argmax of the step before
    unchanged: Tensor  # (1,) int64, steps for which the argmax has been the same
    step: Tensor  # (1,) int64, of the canvas
    draw: Tensor  # (2,) int64: seed, and steps taken in the run


@triton.jit
def settle_kernel(
    argmax_ptr, candidate_ptr, entropy_ptr, nonfinite_ptr, noise_ptr, limits_ptr,
    tokens_ptr, out_entropy_ptr, flags_ptr, canvas_ptr, previous_ptr, unchanged_ptr, step_ptr, draw_ptr,
    C: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Settles all positions.

    Limits: entropy bound, steps that count as stable, mean entropy that counts as confident.
    """
    at = tl.arange(0, PADDED)
    inside = at < C
    entropy = tl.load(entropy_ptr + at, mask=inside, other=0.0)
    before = tl.zeros((PADDED,), tl.float32)
    for start in tl.static_range(0, C, BLOCK):
        other_at = start + tl.arange(0, BLOCK)
        other = tl.load(entropy_ptr + other_at, mask=other_at < C, other=float("inf"))[None, :]
        lower = (other < entropy[:, None]) | ((other == entropy[:, None]) & (other_at[None, :] < at[:, None]))
        before += tl.sum(tl.where(lower & (other_at < C)[None, :], other, 0.0), axis=1)
    accepted = before <= tl.load(limits_ptr)
    argmax = tl.load(argmax_ptr + at, mask=inside, other=0)
    candidate = tl.load(candidate_ptr + at, mask=inside, other=0)
    following = tl.where(accepted, candidate, tl.load(noise_ptr + at, mask=inside, other=0))
    changed = tl.sum((argmax != tl.load(previous_ptr + at, mask=inside, other=0)).to(tl.int32), axis=0)
    unchanged = tl.where(changed == 0, tl.load(unchanged_ptr) + 1, 0)
    stable = unchanged.to(tl.float32) >= tl.load(limits_ptr + 1)
    confident = tl.sum(entropy, axis=0) / C < tl.load(limits_ptr + 2)
    step, draws = tl.load(step_ptr) + 1, tl.load(draw_ptr + 1) + 1
    tl.debug_barrier()  # all is read before anything is written
    tl.store(tokens_ptr + at, argmax, mask=inside)
    tl.store(tokens_ptr + C + at, candidate, mask=inside)
    tl.store(tokens_ptr + 2 * C + at, accepted.to(tl.int64), mask=inside)
    tl.store(tokens_ptr + 3 * C + at, following, mask=inside)
    tl.store(out_entropy_ptr + at, entropy, mask=inside)
    tl.store(canvas_ptr + at, following, mask=inside)
    tl.store(previous_ptr + at, argmax, mask=inside)
    tl.store(flags_ptr, (stable & confident).to(tl.int32))
    tl.store(flags_ptr + 1, tl.load(nonfinite_ptr))
    tl.store(unchanged_ptr, unchanged)
    tl.store(step_ptr, step)
    tl.store(draw_ptr + 1, draws)


def settle(found: VocabularyResult, noise: Tensor, limits: Tensor, left: Buffers) -> None:
    """Accepts, re-noises and tests for convergence.

    Args:
        noise: (C,) int64, tokens for positions that are not accepted.
        limits: fp32 (3,) on the device: entropy bound in nats, stability in steps, confidence in nats.
        left: written; ``previous``, ``unchanged``, ``step`` and ``draw`` are read before.
    """
    launch: Any = settle_kernel[(1,)]
    launch(
        found.argmax, found.candidate, found.entropy, found.nonfinite, noise, limits,
        left.tokens, left.entropy, left.flags, left.canvas, left.previous, left.unchanged, left.step, left.draw,
        C=found.argmax.shape[0], PADDED=triton.next_power_of_2(found.argmax.shape[0]), BLOCK=BLOCK, num_warps=8,
        enable_fp_fusion=True,
    )  # fmt: skip
