"""Compiles kernels ahead of time for cards that are not present.

Shows that a kernel builds for a target, its registers, spills and shared memory; neither its results nor its speed.
Needs Triton with its bundled tools and a process in which the interpreter is off.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engine.kernels.machine.budgets import MachineCode


def compiled(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int,
    warps: int = 4,
    stages: int = 3,
) -> MachineCode:
    """Compiles a ``@triton.jit`` kernel for a compute capability, 90 for 9.0.

    Args:
        signature: run-time argument -> Triton type, as in ``{"x_ptr": "*bf16", "count": "i32"}``.
        constants: compile-time argument -> value.
    """
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {name: "constexpr" if name in constants else signature[name] for name in kernel.arg_names}
    # torch allocates at multiples of 16 bytes, which Triton detects by itself at a launch.
    pointers = [(index,) for index, name in enumerate(kernel.arg_names) if types[name].startswith("*")]
    attributes = {index: [["tt.divisibility", 16]] for index in pointers}
    source = ASTSource(kernel, types, dict(constants), attributes)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}  # unset, triton warns
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(built.asm["cubin"])
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(cubin)]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    spilled = found.get("STACK", 0) + found.get("LOCAL", 0)
    return MachineCode(found["REG"], spilled, built.metadata.shared, built.asm["ptx"])
