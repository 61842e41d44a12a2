"""Decoding 4-bit codes in registers.

A tile of 64 inputs is read as 16 words of 16 bits a row, four codes each, and becomes four quarter tiles of weights:
the even and the odd ones of inputs 0 .. 31, then of inputs 32 .. 63. A lane's two neighbouring words are thus one
register, and no code leaves it or is interleaved: ``split_pairs`` puts the other operand into that order.

There are two forms. The portable one is plain Triton, runs anywhere, in any number type, and is slow: a compare and a
select for every value of the codebook. The other is inline PTX for bf16 and takes eight weights at a time:

- int4: ``lop3`` puts two codes under the high bytes 0x43, which reads as 128 + code in bf16; one fused multiply-add
  takes 136 off, one multiplies by the scale. 7 integer and 8 floating operations for 8 weights. All but the last
  rounding are exact.
- uint4: the same with a fused multiply-add by the scale, which adds the value of code 8. As many operations.
- nf4: the codebook's bf16 values lie in registers as four tables of eight bytes: high and low bytes of its negative and
  positive half. ``prmt`` looks up four codes at a time, another joins high and low bytes. 22 integer and 4 floating
  operations for 8 weights.
- e2m1 (NVFP4): the same with two tables, of the values without signs, which are put in after. 18 integer and 4 floating
  operations. A scale is e4m3: its bits, moved by four places, are bf16 too small by 2 to the 120, subnormal numbers
  included, and the tables are too large by as much. The products are exact.

The asm is a string, so that tests can run it in an emulator.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import struct
from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from engine.quant import E2M1_VALUES, NF4_VALUES


def _bf16(value: float) -> int:
    """Returns the bits of a number rounded to the nearest bf16."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _table(values: Sequence[float], byte: int, part: int) -> str:
    """Returns four bytes of a table, as a PTX word: byte 0 (low) or 1 (high) of values 4 * part .. + 3."""
    four = values[4 * part :][:4]
    return f"0x{sum((_bf16(value) >> 8 * byte & 255) << 8 * place for place, value in enumerate(four)):08X}"


# Operands: $0 .. $3 are two weights each: even and odd low codes, even and odd high codes. $4 is two words of codes;
# $5 and $6 are the bf16 scales of low and high codes, of both words; with uint4, $7 and $8 are the values of code 8.
def _scaled(low: str = "nothing", high: str = "nothing") -> str:
    """Multiplies by the scales and adds two bf16 numbers: -0, which changes nothing, or those of the operands given."""
    return f"""
fma.rn.bf16x2 $0, $0, $5, {low};
fma.rn.bf16x2 $1, $1, $5, {low};
fma.rn.bf16x2 $2, $2, $6, {high};
fma.rn.bf16x2 $3, $3, $6, {high};
"""  # fma also for products: sm_89 has no bf16x2 multiply


_SCALE = _scaled()
_LESS_EIGHT = f"""{{
.reg .b32 one, offset, nothing;
mov.b32 one, 0x{_bf16(1.0) * 0x10001:08X};
mov.b32 offset, 0x{_bf16(-136.0) * 0x10001:08X};
mov.b32 nothing, 0x80008000;
shr.u32 $1, $4, 8;
shr.u32 $2, $4, 4;
shr.u32 $3, $4, 12;
lop3.b32 $0, $4, 0x000F000F, 0x43004300, 0xEA;
lop3.b32 $1, $1, 0x000F000F, 0x43004300, 0xEA;
lop3.b32 $2, $2, 0x000F000F, 0x43004300, 0xEA;
lop3.b32 $3, $3, 0x000F000F, 0x43004300, 0xEA;
fma.rn.bf16x2 $0, $0, one, offset;
fma.rn.bf16x2 $1, $1, one, offset;
fma.rn.bf16x2 $2, $2, one, offset;
fma.rn.bf16x2 $3, $3, one, offset;"""  # 0xEA: (a & b) | c
INT4_PTX = _LESS_EIGHT + _SCALE + "}"
UINT4_PTX = _LESS_EIGHT + _scaled("$7", "$8") + "}"


def _lookup(selector: str, positive: str, low: str, high: str) -> str:
    """Looks up the codes in a selector's low half, low, high, low, high, -> two weights in each output.

    positive: a word with 0xFF for codes above 7, which take their bytes from the positive half's tables.
    """
    lines = []
    for byte in (0, 1):
        plane = f"plane{byte}"
        lines += [
            f"prmt.b32 {plane}, negative{byte}0, negative{byte}1, {selector};",
            f"prmt.b32 other, positive{byte}0, positive{byte}1, {selector};",
            f"lop3.b32 {plane}, {plane}, other, {positive}, 0xD8;",  # positive ? other : plane
        ]
    lines += [f"prmt.b32 {low}, plane0, plane1, 0x6240;", f"prmt.b32 {high}, plane0, plane1, 0x7351;"]
    return "\n".join(lines)


_TABLES = {
    f"{name}{byte}{part}": _table(NF4_VALUES[8 * half :][:8], byte, part)
    for half, name in enumerate(("negative", "positive"))
    for byte in (0, 1)
    for part in (0, 1)
}
NF4_PTX = f"""{{
.reg .b32 nothing, bytes, codes, shifted, mask, plane0, plane1, other, {", ".join(_TABLES)};
mov.b32 nothing, 0x80008000;
{chr(10).join(f"mov.b32 {name}, {word};" for name, word in _TABLES.items())}
prmt.b32 bytes, $4, $4, 0x3120;
and.b32 codes, bytes, 0x77777777;
shl.b32 shifted, bytes, 4;
prmt.b32 mask, bytes, shifted, 0x9D8C;
{_lookup("codes", "mask", "$0", "$2")}
shr.u32 codes, codes, 16;
prmt.b32 mask, bytes, shifted, 0xBFAE;
{_lookup("codes", "mask", "$1", "$3")}
{_SCALE}}}"""

SCALE_SHIFT = 2.0**120  # bf16 numbers from the bits of e4m3 are too small by this factor
_SIZES = {
    f"size{byte}{part}": _table([value * SCALE_SHIFT for value in E2M1_VALUES[:8]], byte, part)
    for byte in (0, 1)
    for part in (0, 1)
}


def _sizes(low: str, high: str) -> str:
    """Looks up codes of e2m1 as ``_lookup``, without signs."""
    return f"""prmt.b32 plane0, size00, size01, codes;
prmt.b32 plane1, size10, size11, codes;
prmt.b32 {low}, plane0, plane1, 0x6240;
prmt.b32 {high}, plane0, plane1, 0x7351;"""


E2M1_PTX = f"""{{
.reg .b32 nothing, bytes, codes, signs, plane0, plane1, {", ".join(_SIZES)};
mov.b32 nothing, 0x80008000;
{chr(10).join(f"mov.b32 {name}, {word};" for name, word in _SIZES.items())}
prmt.b32 bytes, $4, $4, 0x3120;
and.b32 codes, bytes, 0x77777777;
{_sizes("$0", "$2")}
shr.u32 codes, codes, 16;
{_sizes("$1", "$3")}
shl.b32 signs, $4, 12;
lop3.b32 $0, signs, 0x80008000, $0, 0xEA;
shl.b32 signs, $4, 4;
lop3.b32 $1, signs, 0x80008000, $1, 0xEA;
shl.b32 signs, $4, 8;
lop3.b32 $2, signs, 0x80008000, $2, 0xEA;
lop3.b32 $3, $4, 0x80008000, $3, 0xEA;
{_SCALE}}}"""

NF4 = tl.constexpr(NF4_VALUES)
E2M1 = tl.constexpr(E2M1_VALUES)
SHIFT = tl.constexpr(SCALE_SHIFT)
NF4_ASM = tl.constexpr(NF4_PTX)
INT4_ASM = tl.constexpr(INT4_PTX)
UINT4_ASM = tl.constexpr(UINT4_PTX)
E2M1_ASM = tl.constexpr(E2M1_PTX)
CONSTRAINTS = tl.constexpr("=&r,=&r,=&r,=&r,r,r,r")
UINT4_CONSTRAINTS = tl.constexpr("=&r,=&r,=&r,=&r,r,r,r,r,r")


def split_pairs(x: Tensor) -> Tensor:
    """Reorders (..., in) into quarter tiles: of 32 inputs, the even ones before the odd ones."""
    return x.reshape(*x.shape[:-1], -1, 16, 2).transpose(-1, -2).reshape(x.shape)


@triton.jit
def decode_value(code, scales, eights, CODES: tl.constexpr, DTYPE: tl.constexpr):
    """Decodes 4-bit codes with fp32 scales, and with uint4 values of code 8, all (rows, 16 tiles), to weights."""
    if CODES == "int4" or CODES == "uint4":
        value = code.to(tl.float32) - 8.0
    else:
        BOOK: tl.constexpr = NF4 if CODES == "nf4" else E2M1
        value = tl.full(code.shape, BOOK[0], tl.float32)
        for index in tl.static_range(1, 16):
            value = tl.where(code == index, BOOK[index], value)
        if CODES == "e2m1":
            value *= SHIFT
    value *= scales
    if CODES == "uint4":
        value += eights
    return value.to(DTYPE)


@triton.jit
def from_bits(bits):
    """Returns the fp32 numbers of bf16 bits in int16."""
    return (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def decode(
    words, low_scales, high_scales, CODES: tl.constexpr, PTX: tl.constexpr, DTYPE: tl.constexpr,
    low_eights=None, high_eights=None,
):  # fmt: skip
    """Decodes words of codes (rows, 16 tiles) int16 to four quarters of weights, each of that shape in DTYPE.

    low_scales, high_scales: for each word, the bits of bf16 numbers as int16, for the two halves of its tile; with e2m1
    they are too small by ``SCALE_SHIFT``. CODES: "int4", "uint4", "nf4" or "e2m1". low_eights, high_eights: in the same
    form, the values of code 8, with uint4 alone.
    """
    if PTX and CODES == "uint4":
        return tl.inline_asm_elementwise(
            UINT4_ASM, UINT4_CONSTRAINTS, [words, low_scales, high_scales, low_eights, high_eights],  # type: ignore[arg-type]
            dtype=(tl.bfloat16, tl.bfloat16, tl.bfloat16, tl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip
    elif PTX:
        ASM: tl.constexpr = INT4_ASM if CODES == "int4" else NF4_ASM if CODES == "nf4" else E2M1_ASM
        return tl.inline_asm_elementwise(
            ASM, CONSTRAINTS, [words, low_scales, high_scales],  # type: ignore[arg-type]
            dtype=(tl.bfloat16, tl.bfloat16, tl.bfloat16, tl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip
    else:
        low, high = from_bits(low_scales), from_bits(high_scales)
        low_eight, high_eight = None, None
        if CODES == "uint4":
            low_eight, high_eight = from_bits(low_eights), from_bits(high_eights)
        return (
            decode_value(words & 15, low, low_eight, CODES, DTYPE),
            decode_value(words >> 8 & 15, low, low_eight, CODES, DTYPE),
            decode_value(words >> 4 & 15, high, high_eight, CODES, DTYPE),
            decode_value(words >> 12 & 15, high, high_eight, CODES, DTYPE),
        )
