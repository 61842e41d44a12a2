"""Fast paths. This file chooses; ``reference`` and ``reference_sampling`` are the oracles; a kernel has its own file.

A Triton kernel runs on a CUDA device of compute capability 8.0 or newer; ``why_plain`` says for which reason not. The
meta device passes for a card, so that launches can be counted without one; see ``launches``. On a CPU packed weights
take ``cpu``'s ways. Everything else takes the plain path, right anywhere, slow with packed weights; on a CPU that is
also every product whose activations are rounded to int8, so that a large table is unpacked whole.

Kernels know no gradients. Where one is wanted, the call goes through ``gradients``, which comes back here for the
forward pass and unpacks the weights once more for the backward one.

Launches ask for fused multiply-adds by name, since Triton warns where nothing is said of them.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
from typing import Any

import torch
from torch import Tensor

from engine.kernels import cpu, cpu_vocabulary, reference, reference_step
from engine.kernels.reference_step import VocabularyResult
from engine.quant.schemes import BF16, Activations, Packed

LEAST_CAPABILITY = (8, 0)  # bf16 matrix units


@functools.cache
def why_plain(device: torch.device) -> str | None:
    """Why kernels do not run on a device, in words; None if they do."""
    if device.type not in ("cuda", "meta"):
        return "the kernels need an NVIDIA GPU"
    capability = LEAST_CAPABILITY if device.type == "meta" else torch.cuda.get_device_capability(device)
    if capability < LEAST_CAPABILITY:
        return f"the GPU's compute capability {capability[0]}.{capability[1]} is below 8.0"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type == "cuda" and not _can_build():
        return "Triton needs a C compiler; install gcc"
    return None


def _can_build() -> bool:
    """Whether Triton can build its launcher: on Linux with a compiler, or in a bundle, which brings the launcher."""
    if sys.platform != "linux":
        return True
    from triton import knobs

    given = getattr(getattr(knobs, "build", None), "impl", None) is not None
    return given or bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))


def run_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether kernels compute with numbers of this type on this device."""
    return dtype == torch.bfloat16 and why_plain(device) is None


def _fast(x: Tensor) -> bool:
    return run_on(x.device, x.dtype)


def _wants_gradient(*inputs: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def linear(x: Tensor, weight: Packed) -> Tensor:
    """x (..., in) and a packed (out, in) -> (..., out)."""
    if _wants_gradient(x):
        from engine.kernels import gradients

        return gradients.linear(x, weight)
    if _fast(x) and weight.scheme.bits == 8:
        from engine.kernels.linear_w8a16 import linear8

        return linear8(x, weight)
    return cpu.linear(x, weight) if x.device.type == "cpu" else reference.linear(x, weight)


def linear_int8(x: Tensor, weight: Packed) -> Tensor:
    """x (..., in), rounded to int8, and a packed (out, in) of 8 bits -> (..., out). Knows no gradients."""
    if _fast(x):
        from engine.kernels import linear_w8a8

        return linear_w8a8.linear_int8(x, weight)
    return reference.linear_int8(x, weight)


def experts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """Gated experts: x (N, H), routing (N, K), packed (E, 2I, H) and (E, H, I) -> (N, H)."""
    if _wants_gradient(x, weights):
        from engine.kernels import gradients

        return gradients.experts(x, weights, chosen, gate_up, down)
    if _fast(x):
        from engine.kernels.expert_gemm import experts as grouped

        return grouped(x, weights, chosen, gate_up, down)
    if x.device.type == "cpu":
        return cpu.experts(x, weights, chosen, gate_up, down)
    return reference.experts(x, weights, chosen, gate_up, down)


def rows(table: Packed, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of a packed (V, H) by ids (...) -> (..., H)."""
    return reference.rows(table, ids, dtype)


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Mean row of a packed (V, H) under probabilities (..., V) -> (..., H)."""
    if _wants_gradient(probabilities):
        from engine.kernels import gradients

        return gradients.expectation(probabilities, table)
    if probabilities.device.type == "cpu" and table.scheme.bits == 8:
        return cpu.expectation(probabilities, table)
    return reference.expectation(probabilities, table)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, span: Tensor, text_rows: int = 0, window: int | None = None
) -> Tensor:
    """A canvas on its prefix and itself: queries (heads, T, D), keys and values (kv_heads, S, D) -> (T, heads * D).

    span: int32 (2,), the first key that is seen and the number of valid ones. text_rows: queries before the canvas that
    are text, and see keys up to their own place, ``window`` at most.
    """
    if _fast(queries):
        from engine.kernels.attention import attention

        return attention(queries.contiguous(), keys, values, span, text_rows, window)
    if queries.device.type == "cpu":
        return cpu.attention(queries, keys, values, span, text_rows, window)
    return reference_step.attention(queries, keys, values, span, text_rows, window)


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
    activations: Activations = BF16,
) -> VocabularyResult:
    """Head, soft-cap, temperature, statistics, draw and soft embedding in one; see ``vocabulary.vocabulary_stage``."""
    settings: dict[str, Any] = {
        "temperature": temperature,
        "draw": draw,
        "cap": cap,
        "embed_scale": embed_scale,
        "forbidden": forbidden,
        "pinned": pinned,
    }
    if _fast(hidden):
        from engine.kernels import vocabulary

        return vocabulary.vocabulary_stage(hidden, table, **settings, activations=activations)
    rounds = activations.head or activations.soft
    if hidden.device.type == "cpu" and isinstance(table, Packed) and table.scheme.bits == 8 and not rounds:
        return cpu_vocabulary.vocabulary_stage(hidden, table, **settings)
    return reference_step.vocabulary_stage(hidden, table, **settings, activations=activations)
