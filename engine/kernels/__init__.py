"""Fast paths for packed weights. This file chooses; ``reference`` is the oracle; each kernel has a file of its own.

A Triton kernel runs on CUDA devices of compute capability 8.0 or newer; everything else takes the plain path.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels import reference
from engine.weights.quantize import Packed


def linear(x: Tensor, weight: Packed) -> Tensor:
    """x (..., in) and a packed (out, in) -> (..., out)."""
    return reference.linear(x, weight)


def experts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """Gated experts: x (N, H), routing (N, K), packed (E, 2I, H) and (E, H, I) -> (N, H)."""
    return reference.experts(x, weights, chosen, gate_up, down)


def rows(table: Packed, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of a packed (V, H) by ids (...) -> (..., H)."""
    return reference.rows(table, ids, dtype)


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Mean row of a packed (V, H) under probabilities (..., V) -> (..., H)."""
    return reference.expectation(probabilities, table)
