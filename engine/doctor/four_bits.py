"""Names the kernels that multiply 4-bit weights on this processor, and says why not ours in C."""

from __future__ import annotations

import platform

import torch

from engine import windows
from engine.kernels import cpu, cpu_int4, cpu_w4a8, native

OURS = {"amx": "AMX", "avx512": "AVX-512 VNNI", "avxvnni": "AVX-VNNI", "avx2": "AVX2"}  # by what it was built for


def experts_kernel() -> str:
    """Names the kernel of experts in int4."""
    if why_not_ours() is None:
        return f"ours in C, {OURS[native.instructions()]}"
    if cpu_int4.block():
        return f"torch's, {torch.backends.cpu.get_cpu_capability()}"
    return f"decoded and multiplied in {'bf16' if cpu.has_bf16_units() else 'fp32'}"


def why_not_ours() -> str | None:
    """Returns the reason why our kernel in C does not serve, and what to do; None if it does."""
    block, rows = cpu_int4.block(), cpu_w4a8.block()
    if block and rows == block:
        return None
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"it is written for x86-64, and this processor is {platform.machine()}"
    is_bundled = any(native.bundled(name).is_file() for name in native.INSTRUCTIONS)
    if not is_bundled and windows.IS_WINDOWS:
        return "it is not built on Windows yet"
    if not is_bundled and native.compiler() is None:
        return "there is no C compiler to build it with; install gcc or clang"
    if not block:
        return "it reads weights as torch's 4-bit kernel does, and this torch has none for this processor"
    if rows:
        return f"without AVX-512 VNNI it reads blocks of {rows} rows, and torch lays weights in blocks of {block} here"
    return "it could not be built or loaded here, the processor lacks AVX2, or its results were wrong"
