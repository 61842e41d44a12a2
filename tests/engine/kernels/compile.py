"""Ahead-of-time compilation of Triton kernels for cards that are not there, and what the machine code says of them.

Proves that a kernel builds for a target, its registers, spills, shared memory and instruction mix; neither its results
nor its speed. Needs triton with its bundled disassembler and a process in which the interpreter is off.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = (89, 90, 120)  # RTX 40, H100 and H200, RTX 50
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)(.*?);", re.MULTILINE)


@dataclass(frozen=True)
class Compiled:
    """A kernel's machine code for one target."""

    registers: int  # of a thread
    spill_bytes: int  # stack and local memory of a thread
    shared_bytes: int  # of a program, dynamic included
    cubin: bytes
    ptx: str

    @cached_property
    def sass(self) -> str:
        """The instructions; taking them apart takes half a second."""
        return _of_cubin(self.cubin, "--dump-sass")

    @property
    def opcodes(self) -> Counter[str]:
        """How often each opcode stands in the code, without its suffixes: {"PRMT": 42, ...}."""
        return Counter(opcode for _, opcode, _ in INSTRUCTION.findall(self.sass))

    @cached_property
    def loop_code(self) -> list[tuple[str, str]]:
        """The longest loop's body, which stands between a backward branch and its target: opcodes, and what follows.

        Raises:
            ValueError: the kernel has no loop.
        """
        code = [(int(at, 16), opcode, rest) for at, opcode, rest in INSTRUCTION.findall(self.sass)]
        ends = {at: int(rest.split()[-1], 16) for at, opcode, rest in code if opcode == "BRA"}
        end, start = max(ends.items(), key=lambda branch: branch[0] - branch[1])
        if start >= end:
            raise ValueError("the kernel has no loop")
        return [(opcode, rest) for at, opcode, rest in code if start <= at <= end]

    @property
    def loop(self) -> Counter[str]:
        """The opcodes of the longest loop's body."""
        return Counter(opcode for opcode, _ in self.loop_code)

    @property
    def loads_in_flight(self) -> int:
        """Groups of asynchronous copies that may be under way when the first loop's turn begins to use its own."""
        waits = re.findall(r"cp\.async\.wait_group\s+(\d+)", self.ptx)
        return int(waits[0]) if waits else 0

    @property
    def products_in_flight(self) -> list[int]:
        """sm_90: how many groups of products may be under way after each wait for them in the longest loop."""
        waits = [rest for opcode, rest in self.loop_code if opcode == "WARPGROUP" and rest.startswith(".DEPBAR")]
        return [int(rest.split(",")[1], 16) for rest in waits]


def compiled(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    capability: int,
    num_warps: int = 4,
    num_stages: int = 3,
) -> Compiled:
    """Compile a ``@triton.jit`` kernel.

    Args:
        signature: run-time argument -> Triton type, as in ``{"x_ptr": "*bf16", "count": "i32"}``.
        constexprs: compile-time argument -> value.
        capability: one of ``TARGETS``.

    Raises:
        ValueError: an argument of the kernel is in neither mapping.
    """
    if missing := set(kernel.arg_names) - set(signature) - set(constexprs):
        raise ValueError(f"no type or value for {sorted(missing)}")
    types = {name: "constexpr" if name in constexprs else signature[name] for name in kernel.arg_names}
    # Torch's allocations start at multiples of 16 bytes; at launch Triton finds that out itself.
    pointers = [(index,) for index, name in enumerate(kernel.arg_names) if types[name].startswith("*")]
    attributes = {index: [["tt.divisibility", 16]] for index in pointers}
    source = ASTSource(kernel, types, dict(constexprs), attributes)
    target = GPUTarget("cuda", capability, 32)
    options = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}  # unset, triton warns
    built = triton.compile(source, target=target, options=options)
    cubin = built.asm["cubin"]
    usage = _of_cubin(cubin, "--dump-resource-usage")
    used = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return Compiled(used["REG"], used["STACK"] + used["LOCAL"], built.metadata.shared, cubin, built.asm["ptx"])


def _of_cubin(cubin: bytes, what: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, what, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
