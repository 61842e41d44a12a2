"""Limits on a kernel's machine code on a kind of card, and their violations."""

from __future__ import annotations

from dataclasses import dataclass

from tests.engine.kernels.machine.machine_code import MachineCode

TARGETS = (89, 90, 120)  # RTX 40, H100 and H200, RTX 50
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes per multiprocessor available to programs
DECODE = ("PRMT", "LOP3", "SHF", "HFMA2", "HMUL2", "MOV", "IMAD")  # includes moves of tables and addresses


@dataclass(frozen=True)
class CodeBudget:
    """A kernel's maximum resources, and what its code must and must not contain."""

    registers: int = 255  # of a thread
    spill_bytes: int = 0  # of a thread
    programs: int = 1  # minimum number that fits in a multiprocessor's shared memory at once
    matrix_units: str = ""  # the kind its loop must use: "H" for bf16, "I" for int8
    decoding: float = 0  # instructions to decode a weight; 0: it decodes none
    looping: float = 0  # instructions of the whole loop for a weight; 0: not counted
    loads_in_flight: int = 0  # groups of asynchronous copies that must be in flight while one is computed on
    products_in_flight: int = 0  # groups of products that must be in flight after each wait in the loop, on sm_90
    products: int = 0  # matrix instructions of its loop, at most; 0: not counted
    instructions: int = 0  # of its loop, at most; 0: not counted
    ptx_without: tuple[str, ...] = ()  # texts
    loop_without: tuple[str, ...] = ()  # opcodes

    @property
    def reads_loop(self) -> bool:
        """True if the budget covers the instructions of the loop."""
        return bool(self.matrix_units or self.instructions or self.decoding or self.loop_without)

    def faults(self, code: MachineCode, capability: int, decoded: float) -> list[str]:
        """Returns the machine code's violations of the budget, in words.

        Args:
            decoded: weights that a thread decodes per loop iteration.
        """
        found = []
        if code.registers > self.registers:
            found.append(f"{code.registers} registers, at most {self.registers} allowed")
        if code.spill_bytes > self.spill_bytes:
            found.append(f"{code.spill_bytes} bytes spilled, at most {self.spill_bytes} allowed")
        if self.programs * code.shared_bytes > SHARED[capability]:
            found.append(f"{code.shared_bytes} bytes of shared memory, too many for {self.programs} programs")
        unit = matrix_opcode(self.matrix_units, capability)
        if self.matrix_units and not code.loop[unit]:
            found.append(f"no {unit} in its loop")
        if self.products and code.loop[unit] > self.products:
            found.append(f"{code.loop[unit]} {unit} in its loop, at most {self.products} wanted")
        if self.instructions and code.loop.total() > self.instructions:
            found.append(f"{code.loop.total()} instructions in its loop, at most {self.instructions} wanted")
        if self.decoding and decoding(code, decoded) > self.decoding:
            found.append(f"{decoding(code, decoded):.1f} instructions to decode a weight, at most {self.decoding}")
        if self.looping and looping(code, decoded) > self.looping:
            found.append(f"{looping(code, decoded):.1f} instructions of its loop a weight, at most {self.looping}")
        if any(count < self.products_in_flight for count in code.products_in_flight):
            found.append(
                f"{min(code.products_in_flight)} products in flight, at least {self.products_in_flight} wanted"
            )
        if code.overwritten:
            found.append(f"registers of running products are written at {code.overwritten[0]:#x}")
        if code.loads_in_flight < self.loads_in_flight:
            found.append(f"{code.loads_in_flight} loads in flight, at least {self.loads_in_flight} wanted")
        found += [f"{text} in its PTX" for text in self.ptx_without if text in code.ptx]
        found += [f"{opcode} in its loop" for opcode in self.loop_without if code.loop[opcode]]
        return found


def matrix_opcode(kind: str, capability: int) -> str:
    """Returns the instruction that multiplies matrices of a kind: HGMMA on H100, HMMA elsewhere."""
    return f"{kind}{'GMMA' if capability == 90 else 'MMA'}"


def decoding(code: MachineCode, decoded: float) -> float:
    """Returns a thread's instructions to decode a weight; 0 if it decodes none."""
    return sum(code.loop[opcode] for opcode in DECODE) / decoded if decoded else 0.0


def looping(code: MachineCode, decoded: float) -> float:
    """Returns a thread's instructions of the loop per weight; 0 if it decodes none."""
    return code.loop.total() / decoded if decoded else 0.0
