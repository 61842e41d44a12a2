"""The operations that have fast paths. ``table`` selects the function of each; every kernel has its own file.

A Triton kernel runs on a CUDA device of compute capability 8.0 or newer; ``why_plain`` gives the reason if not. The
meta device counts as a card, so that launches can be counted without one. A CPU has functions of its
own in ``cpu`` for packed weights. Everything else takes the plain path in ``reference`` and ``reference_step``, correct
anywhere, slow with packed weights.

Kernels compute no gradients. If one is needed, the call goes through ``gradients``, which unpacks the weights again
for the backward pass.

Launches enable fused multiply-adds explicitly, since Triton warns otherwise.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys

import torch
from torch import Tensor

from engine.config import GELU, Activation
from engine.kernels import gradients
from engine.kernels.reference_step import VocabularyResult
from engine.kernels.table import Kind, find
from engine.quant import Packed

LEAST_CAPABILITY = (8, 0)  # of cards with bf16 matrix units


@functools.cache
def why_plain(device: torch.device) -> str | None:
    """Returns the reason why kernels do not run on a device, in words; None if they do."""
    if device.type not in ("cuda", "meta"):
        return "the kernels need an NVIDIA GPU"
    if device.type == "cuda" and torch.version.hip is not None:
        return "the kernels are written for NVIDIA GPUs"
    version = torch.cuda.get_device_capability(device) if device.type == "cuda" else LEAST_CAPABILITY
    if version < LEAST_CAPABILITY:
        return f"the GPU's compute capability {version[0]}.{version[1]} is below 8.0"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if device.type == "cuda" and not _can_build():
        return "Triton needs a C compiler; install gcc"
    return None


def _can_build() -> bool:
    """Returns True if Triton can build its launcher: on Linux with a compiler; a bundle contains the launcher."""
    if sys.platform != "linux":
        return True
    from triton import knobs  # may be missing; ``why_plain`` has checked

    given = getattr(getattr(knobs, "build", None), "impl", None) is not None
    return given or bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))


def run_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Returns True if kernels compute with numbers of this type on this device."""
    return dtype == torch.bfloat16 and why_plain(device) is None


def kind_of(x: Tensor) -> Kind:
    """Returns which kernels serve numbers like these."""
    if run_on(x.device, x.dtype):
        return "triton"
    return "cpu" if x.device.type == "cpu" else "plain"


def _wants_gradient(*inputs: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def linear(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies x (..., in) by a packed (out, in) -> (..., out)."""
    run = find("linear", weight.scheme, kind_of(x))
    return gradients.linear(run, x, weight) if _wants_gradient(x) else run(x, weight)


def experts(
    x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, activation: Activation = GELU
) -> Tensor:
    """Runs gated experts: x (N, H), routing (N, K), packed (E, 2I, H) and (E, H, I) of one scheme -> (N, H)."""
    run = find("experts", gate_up.scheme, kind_of(x))
    if _wants_gradient(x, weights):
        return gradients.experts(run, x, weights, chosen, gate_up, down, activation)
    return run(x, weights, chosen, gate_up, down, activation)


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Returns the mean row of a packed (V, H) under probabilities (..., V) -> (..., H)."""
    run = find("expectation", table.scheme, kind_of(probabilities))
    if _wants_gradient(probabilities):
        return gradients.expectation(run, linear, probabilities, table)
    return run(probabilities, table)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, span: Tensor, text_rows: int = 0, window: int | None = None
) -> Tensor:
    """Attends from a canvas to prefix and canvas: queries (heads, T, D), keys, values (kv_heads, S, D) -> (T, heads *
    D).

    span: int32 (2,), the first visible key and the number of valid ones. text_rows: queries before the canvas that are
    text, and attend to keys up to their own position, at most ``window``.
    """
    run = find("attend", None, kind_of(queries))
    return run(queries, keys, values, span, text_rows, window)


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
) -> VocabularyResult:
    """Runs head, soft-cap, temperature, statistics, draw and soft embedding in one: ``vocabulary.vocabulary_stage``."""
    run = find("vocabulary_stage", table.scheme if isinstance(table, Packed) else None, kind_of(hidden))
    return run(
        hidden,
        table,
        temperature=temperature,
        draw=draw,
        cap=cap,
        embed_scale=embed_scale,
        forbidden=forbidden,
        pinned=pinned,
    )
