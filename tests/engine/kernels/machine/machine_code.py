"""Facts about a kernel's machine code: registers, spills, shared memory, instructions. Parses text; compiles nothing.

The text is the output of NVIDIA's nvdisasm. Later versions add remarks to instructions (``?WAIT15_END_GROUP``,
``&req={0,1}``), which are irrelevant here.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)(.*?);", re.MULTILINE)
REMARK = re.compile(r"[?&]\S+")
RESULT = re.compile(r"(\S*)\s+R(\d+)\b")
LEFT = re.compile(r"\S+\s+R\d+, R(\d+), gdesc")  # registers of a product whose left operand is in registers
LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/.*", re.MULTILINE)
ADDRESS = re.compile(r"0x([0-9a-f]+)")


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly: ``MOV.64 R2, R4`` has the opcode MOV."""

    at: int  # bytes from the kernel's start
    opcode: str  # without its suffixes
    rest: str  # suffixes and operands
    target: int | None  # of a branch with an explicit target


@dataclass(frozen=True)
class MachineCode:
    """A kernel's machine code for one target."""

    registers: int  # of a thread
    spill_bytes: int  # stack and local memory of a thread
    shared_bytes: int  # of a program, dynamic included
    ptx: str
    text: bytes  # its instructions in binary form
    sass: str = ""  # its disassembly; empty until it is disassembled

    @cached_property
    def instructions(self) -> list[Instruction]:
        """All instructions in order."""
        found = INSTRUCTION.findall(self.sass)
        return [_instruction(int(found[0][0], 16), *each) for each in found]

    @cached_property
    def loop_body(self) -> list[Instruction]:
        """The longest loop's body, between a backward branch and its target; empty without a loop."""
        start, end = max(
            ((each.target, each.at) for each in self.instructions if each.target is not None),
            key=lambda ends: ends[1] - ends[0],
            default=(1, 0),
        )
        return [each for each in self.instructions if start <= each.at <= end and start < end]

    @property
    def loop(self) -> Counter[str]:
        """The count of each opcode in the longest loop's body."""
        return Counter(each.opcode for each in self.loop_body)

    @property
    def loads_in_flight(self) -> int:
        """Groups of asynchronous copies that may be in flight at the first wait; 0 without any."""
        waits = re.findall(r"cp\.async\.wait_group\s+(\d+)", self.ptx)
        return int(waits[0]) if waits else 0

    @property
    def products_in_flight(self) -> list[int]:
        """sm_90: groups of products that may be in flight after each wait for them in the longest loop."""
        waits = [each.rest for each in self.loop_body if each.opcode == "WARPGROUP" and each.rest.startswith(".DEPBAR")]
        return [int(rest.split(",")[1], 16) for rest in waits]

    @property
    def overwritten(self) -> list[int]:
        """sm_90: places in the longest loop where a register is written that a product in flight may still read."""
        found = []
        groups: list[set[int]] = [set()]  # registers of groups in flight; the last one is still open
        for each in self.loop_body * 2:  # products of an iteration may be in flight in the next
            if each.opcode == "HGMMA":
                left = LEFT.match(each.rest)
                groups[-1] |= set(range(int(left[1]), int(left[1]) + 4)) if left else set()
                groups += [set()] if "gsb0" in each.rest else []
            elif each.opcode == "WARPGROUP" and each.rest.startswith(".DEPBAR"):
                groups = groups[-1 - int(each.rest.split(",")[1], 16) :]
            elif (result := RESULT.match(each.rest)) and not _is_free(result, groups):
                found.append(each.at)
        return sorted(set(found))


def _is_free(result: re.Match[str], groups: list[set[int]]) -> bool:
    """Returns True if no group of products reads the registers that an instruction writes."""
    width = 4 if ".128" in result[1] or ".M88.4" in result[1] else 2 if re.search(r"\.(64|WIDE)", result[1]) else 1
    written = range(int(result[2]), int(result[2]) + width)
    return not any(group.intersection(written) for group in groups)


def _instruction(start: int, at: str, opcode: str, rest: str) -> Instruction:
    addresses = ADDRESS.findall(REMARK.sub("", rest)) if opcode == "BRA" else []
    return Instruction(int(at, 16) - start, opcode, rest, int(addresses[-1], 16) - start if addresses else None)


def used(usage: str) -> tuple[int, int]:
    """Returns the registers and spilled bytes of a thread, from the text of ``--dump-resource-usage``.

    Raises:
        ValueError: the text has neither.
    """
    found = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    if "REG" not in found:
        raise ValueError("the disassembler shows no registers")
    return found["REG"], found.get("STACK", 0) + found.get("LOCAL", 0)


def text_of(cubin: bytes, kernel: str) -> bytes:
    """Returns the section of a kernel's instructions in an ELF file of 64 bits.

    Raises:
        ValueError: there is none.
    """
    (headers,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, headers + index * size) for index in range(count)]
    for name, _, _, _, start, length in sections:
        if cubin[sections[names][4] + name :].startswith(f".text.{kernel}\0".encode()):
            return cubin[start : start + length]
    raise ValueError(f"the binary has no code of {kernel}")


def apart(sass: str, sizes: Sequence[int]) -> list[str]:
    """Splits the disassembly of consecutive kernels, whose sizes in bytes are given, into the lines of each."""
    lines: list[list[str]] = [[] for _ in sizes]
    ends = list(accumulate(sizes))
    for line in LINE.finditer(sass):
        lines[bisect(ends, int(line[1], 16))].append(line[0])
    return ["\n".join(each) for each in lines]
