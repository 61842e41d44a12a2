"""A step's end in one launch: accept, re-noise, test for convergence; writes the results and the next step's inputs.

One program for the whole canvas, and for all rules of acceptance: the rule is a number on the device, so that a graph
serves runs of any. Their oracles are in ``decoding.acceptance``. The entropy bound accepts a position by the sum of the
entropies below its own. This needs no sort, as each position is compared with all. Predicted, not measured: 6 µs for
256 positions; as torch operations it is 30 to 50 launches.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from engine.decoders import ACCEPTANCE
from engine.kernels.reference_step import VocabularyResult

BLOCK = 32  # positions that all others are compared with at a time
BOUND = tl.constexpr(list(ACCEPTANCE).index("entropy_bound"))
CONFIDENCE = tl.constexpr(list(ACCEPTANCE).index("confidence_threshold"))


@dataclass(frozen=True, eq=False)
class Buffers:
    """The results of a step. C positions; all on the device, contiguous."""

    tokens: Tensor  # (4, C) int64: argmax, candidates, accepted, next canvas
    entropy: Tensor  # (C,) fp32
    flags: Tensor  # (2,) int32: converged; not finite
    canvas: Tensor  # (C,) int64
    kept: Tensor  # (C,) bool, positions that the rule has accepted for good, or that are pinned
    previous: Tensor  # (C,) int64, the argmax of the step before
    unchanged: Tensor  # (1,) int64, steps for which the argmax has been the same
    step: Tensor  # (1,) int64, of the canvas
    draw: Tensor  # (2,) int64: seed, and steps taken in the run


@triton.jit
def settle_kernel(
    argmax_ptr, candidate_ptr, entropy_ptr, probability_ptr, nonfinite_ptr, noise_ptr, pinned_ptr, knobs_ptr,
    tokens_ptr, out_entropy_ptr, flags_ptr, canvas_ptr, kept_ptr, previous_ptr, unchanged_ptr, step_ptr, draw_ptr,
    C: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Settles all positions; knobs are those of ``settle``."""
    at = tl.arange(0, PADDED)
    inside = at < C
    step = tl.load(step_ptr) + 1
    rule = tl.load(knobs_ptr + 3).to(tl.int32)
    keeps = rule != BOUND
    held = (tl.load(kept_ptr + at, mask=inside, other=1) != 0) & keeps
    entropy = tl.load(entropy_ptr + at, mask=inside, other=0.0)
    before = tl.zeros((PADDED,), tl.float32)
    for start in tl.static_range(0, C, BLOCK):
        other_at = start + tl.arange(0, BLOCK)
        other = tl.load(entropy_ptr + other_at, mask=other_at < C, other=float("inf"))[None, :]
        lower = (other < entropy[:, None]) | ((other == entropy[:, None]) & (other_at[None, :] < at[:, None]))
        counts = (other_at < C) & ((tl.load(kept_ptr + other_at, mask=other_at < C, other=1) == 0) | (rule == BOUND))
        before += tl.sum(tl.where(lower & counts[None, :], other, 0.0), axis=1)
    accepted = before <= tl.load(knobs_ptr)
    # The surest position, if none is sure.
    probability = tl.where(held, -1.0, tl.load(probability_ptr + at, mask=inside, other=-1.0))
    sure = probability >= tl.load(knobs_ptr + 4)
    surest = tl.min(tl.where(probability == tl.max(probability, axis=0), at, PADDED), axis=0)
    sure |= (at == surest) & (tl.sum(sure.to(tl.int32), axis=0) == 0)
    accepted = tl.where(rule == CONFIDENCE, sure, accepted) | held
    is_finished = keeps & (tl.sum((inside & (accepted == 0)).to(tl.int32), axis=0) == 0)
    argmax = tl.load(argmax_ptr + at, mask=inside, other=0)
    pinned = tl.load(pinned_ptr + at, mask=inside, other=-1) >= 0
    kept_token = tl.where(held, tl.load(canvas_ptr + at, mask=inside, other=0), argmax)
    candidate = tl.where(keeps, kept_token, tl.load(candidate_ptr + at, mask=inside, other=0))
    following = tl.where(accepted, candidate, tl.load(noise_ptr + at, mask=inside, other=0))
    changed = tl.sum((argmax != tl.load(previous_ptr + at, mask=inside, other=0)).to(tl.int32), axis=0)
    unchanged = tl.where(changed == 0, tl.load(unchanged_ptr) + 1, 0)
    stable = unchanged.to(tl.float32) >= tl.load(knobs_ptr + 1)
    confident = tl.sum(entropy, axis=0) / C < tl.load(knobs_ptr + 2)
    draws = tl.load(draw_ptr + 1) + 1
    tl.debug_barrier()  # all is read before anything is written
    tl.store(tokens_ptr + at, argmax, mask=inside)
    tl.store(tokens_ptr + C + at, candidate, mask=inside)
    tl.store(tokens_ptr + 2 * C + at, accepted.to(tl.int64), mask=inside)
    tl.store(tokens_ptr + 3 * C + at, following, mask=inside)
    tl.store(out_entropy_ptr + at, entropy, mask=inside)
    tl.store(canvas_ptr + at, following, mask=inside)
    tl.store(kept_ptr + at, tl.where(keeps, accepted, pinned), mask=inside)
    tl.store(previous_ptr + at, argmax, mask=inside)
    tl.store(flags_ptr, ((stable & confident) | is_finished).to(tl.int32))
    tl.store(flags_ptr + 1, tl.load(nonfinite_ptr))
    tl.store(unchanged_ptr, unchanged)
    tl.store(step_ptr, step)
    tl.store(draw_ptr + 1, draws)


def settle(result: VocabularyResult, noise: Tensor, pinned: Tensor, knobs: Tensor, left: Buffers) -> None:
    """Accepts, re-noises and tests for convergence.

    Args:
        noise: (C,) int64, tokens for positions that are not accepted.
        pinned: (C,) int32, -1 where a position is free.
        knobs: fp32 (5,) on the device: entropy bound in nats, stability in steps, confidence in nats, the rule's place
            in ``ACCEPTANCE``, its probability.
        left: written; ``canvas``, ``kept``, ``previous``, ``unchanged``, ``step`` and ``draw`` are read before.
    """
    settle_kernel[(1,)](
        result.argmax, result.candidate, result.entropy, result.probability, result.nonfinite, noise, pinned, knobs,
        left.tokens, left.entropy, left.flags, left.canvas, left.kept, left.previous, left.unchanged, left.step,
        left.draw,
        C=result.argmax.shape[0], PADDED=triton.next_power_of_2(result.argmax.shape[0]), BLOCK=BLOCK, num_warps=8,
        enable_fp_fusion=True,
    )  # fmt: skip
