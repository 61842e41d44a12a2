"""The inline PTX that decodes codes, run line by line in an emulator on every code in every place."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from engine.kernels.decode import E2M1_PTX, INT4_PTX, NF4_PTX, UINT4_PTX, split_pairs
from engine.quant import NF4, NVFP4, SCHEMES, Packed, to_blocks, unpack
from engine.quant.integers import UINT4, words_of

WORD = 0xFFFFFFFF


def bf16(bits: Tensor) -> Tensor:
    """bf16 bits as integers -> their values, fp32."""
    return (bits.to(torch.int32) << 16).view(torch.float32)


def prmt(a: Tensor, b: Tensor, selector: Tensor) -> Tensor:
    """PTX's byte permute in its default mode: byte 0 .. 7 of b:a, or, by a nibble's top bit, that byte's sign."""
    both = a | b << 32
    result = torch.zeros_like(a)
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = both >> 8 * (nibble & 7) & 255
        result |= torch.where(nibble > 7, (byte >> 7) * 255, byte) << 8 * place
    return result


def lop3(a: Tensor, b: Tensor, c: Tensor, table: int) -> Tensor:
    """PTX's logic on three words by truth table."""
    result = torch.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return result & WORD


def fma_bf16x2(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """PTX's fma.rn on two bf16: exact in fp32 for these operands, then rounded once."""
    halves = []
    for shift in (0, 16):
        x, y, z = (bf16(word >> shift & 0xFFFF) for word in (a, b, c))
        halves.append((x * y + z).to(torch.bfloat16).view(torch.int16).long() & 0xFFFF)
    return halves[0] | halves[1] << 16


def run(ptx: str, inputs: list[Tensor], outputs: int = 4) -> list[Tensor]:
    """Runs asm on words held in int64, the inputs behind the outputs."""
    registers = {f"${outputs + index}": words for index, words in enumerate(inputs)}

    def read(operand: str) -> Tensor:
        return registers[operand] if operand in registers else torch.full_like(inputs[0], int(operand, 0))

    for line in ptx.strip("{}\n").splitlines():
        if not line or line.startswith(".reg"):
            continue
        opcode, operands = re.fullmatch(r"([\w.]+) (.+);", line).groups()
        target, *sources = operands.split(", ")
        if opcode == "lop3.b32":
            registers[target] = lop3(*map(read, sources[:3]), int(sources[3], 0))
        else:
            registers[target] = {
                "mov.b32": lambda a: a,
                "and.b32": lambda a, b: a & b,
                "shl.b32": lambda a, b: a << b & WORD,
                "shr.u32": lambda a, b: a >> b,
                "prmt.b32": prmt,
                "fma.rn.bf16x2": fma_bf16x2,
            }[opcode](*map(read, sources))
    return [registers[f"${index}"] for index in range(outputs)]


CODES = ((torch.arange(256)[:, None] + torch.arange(32) * 67) % 256).to(torch.uint8)
"""Row r has byte r in its first place, and so on round: every byte stands in each of a lane's four places."""


@pytest.mark.parametrize(("scheme", "ptx"), [("int4-g32", INT4_PTX), ("int4-g64", INT4_PTX), ("nf4-g64", NF4_PTX)])
def test_ptx_decodes_every_byte_in_every_place(scheme: str, ptx: str) -> None:
    random = torch.Generator().manual_seed(0)
    kind = SCHEMES[scheme]
    codes = CODES
    scales = torch.randn(64 // kind.group_size, 256, generator=random).to(torch.bfloat16)
    want = unpack(Packed(codes, scales, kind))  # (256, 64)
    if kind is NF4:  # the tables hold bf16 values, which the product rounds again
        unit = unpack(Packed(codes, torch.ones_like(scales), kind), torch.bfloat16).float()
        want = unit * scales[0].float()[:, None]

    low, high = (scales[place].unsqueeze(1).expand(-1, 8) for place in (0, -1))
    assert torch.equal(decoded(ptx, codes, low, high), split_pairs(want.to(torch.bfloat16).float()))


def test_ptx_decodes_e2m1_by_every_scale() -> None:
    """Exactly: all 127 scales of e4m3 that are numbers, zero and subnormal ones too, on all codes in all places."""
    codes = CODES.repeat(127, 1)
    turns = torch.arange(127).repeat_interleave(256)[:, None]
    bits = (torch.arange(256).repeat(127)[:, None] * 5 + torch.arange(4) * 37 + turns) % 127  # (R, groups)
    scales = bits.to(torch.uint8).view(torch.float8_e4m3fn).float()
    packed = Packed(codes, NVFP4.store_scales(scales), NVFP4, torch.ones(len(codes)))
    small = (bits << 4).to(torch.int16).view(torch.bfloat16)
    low, high = (small[:, half : half + 2].repeat_interleave(4, dim=1) for half in (0, 2))  # four pairs of words each
    assert torch.equal(decoded(E2M1_PTX, codes, low, high), split_pairs(unpack(packed)))


def test_ptx_decodes_uint4_by_scales_and_values_of_code_eight() -> None:
    random = torch.Generator().manual_seed(3)
    scales, eights = (torch.randn(2, 256, generator=random).to(torch.bfloat16) for _ in range(2))
    codes = CODES.clone()
    to_blocks(codes, 64)
    want = unpack(Packed(codes, words_of(scales, eights), UINT4, block=64)).to(torch.bfloat16).float()
    halves = (half.unsqueeze(1).expand(-1, 8) for part in (scales, eights) for half in part)
    assert torch.equal(decoded(UINT4_PTX, CODES, *halves), split_pairs(want))


def decoded(ptx: str, codes: Tensor, *halves: Tensor) -> Tensor:
    """Codes (R, 32) of a tile and bf16 scales, and numbers to add, (R, 8) of pairs of words -> weights (R, 64) in split
    pairs.
    """
    words = codes.view(torch.int32).long() & WORD  # (R, 8): two neighbouring words of 16 bits each
    scales = [(part.contiguous().view(torch.int16).long() & 0xFFFF) * 0x10001 for part in halves]
    quarters = [torch.stack([word & 0xFFFF, word >> 16], dim=-1).flatten(1) for word in run(ptx, [words, *scales])]
    return bf16(torch.cat(quarters, dim=1))
