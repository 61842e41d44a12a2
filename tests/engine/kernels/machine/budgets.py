"""Limits on a kernel's resources on a kind of card, and their violations."""

from __future__ import annotations

import re
from dataclasses import dataclass

TARGETS = (89, 90, 120)  # RTX 40, H100 and H200, RTX 50
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes per multiprocessor available to programs


@dataclass(frozen=True)
class MachineCode:
    """A kernel's resources on one target."""

    registers: int  # of a thread
    spill_bytes: int  # stack and local memory of a thread
    shared_bytes: int  # of a program, dynamic included
    ptx: str

    @property
    def loads_in_flight(self) -> int:
        """Groups of asynchronous copies that may be in flight at the first wait; 0 without any."""
        waits = re.findall(r"cp\.async\.wait_group\s+(\d+)", self.ptx)
        return int(waits[0]) if waits else 0


@dataclass(frozen=True)
class CodeBudget:
    """A kernel's maximum resources, and what its code must and must not contain."""

    registers: int = 255  # of a thread
    spill_bytes: int = 0  # of a thread
    programs: int = 1  # minimum number that fits in a multiprocessor's shared memory at once
    has_products: bool = False  # it multiplies on matrix units
    loads_in_flight: int = 0  # groups of asynchronous copies that must be in flight while one is computed on
    ptx_without: tuple[str, ...] = ()  # texts

    def faults(self, code: MachineCode, capability: int) -> list[str]:
        """Returns the machine code's violations of the budget, in words."""
        found = []
        if code.registers > self.registers:
            found.append(f"{code.registers} registers, at most {self.registers} allowed")
        if code.spill_bytes > self.spill_bytes:
            found.append(f"{code.spill_bytes} bytes spilled, at most {self.spill_bytes} allowed")
        if self.programs * code.shared_bytes > SHARED[capability]:
            found.append(f"{code.shared_bytes} bytes of shared memory, too many for {self.programs} programs")
        if self.has_products and not re.search(r"\bw?g?mma\.", code.ptx):
            found.append("no products on matrix units")
        if code.loads_in_flight < self.loads_in_flight:
            found.append(f"{code.loads_in_flight} loads in flight, at least {self.loads_in_flight} wanted")
        return found + [f"{text} in its PTX" for text in self.ptx_without if text in code.ptx]
