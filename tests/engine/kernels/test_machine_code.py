"""What is read from disassemblies, of older and newer tools, and what of it breaks a budget. Needs no Triton."""

from __future__ import annotations

import dataclasses
import re
import struct

import pytest

from tests.engine.kernels.machine.budgets import CodeBudget, decoding, matrix_opcode
from tests.engine.kernels.machine.machine_code import MachineCode, apart, text_of, used

PLAIN = """\
        Function : kernel
        /*0000*/                   LDC R1, c[0x0][0x37c] ;                /* 0x0000df00ff017b82 */
                                                                          /* 0x000fe20000000800 */
        /*0010*/                   PRMT R2, R3, 0x6420, R4 ;              /* 0x0 */
        /*0020*/              @!P0 BRA 0x60 ;                             /* 0x0 */
        /*0030*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;   /* 0x0 */
        /*0040*/             @!UP1 LOP3.LUT R2, R2, 0xf, RZ, 0xc0, !PT ;  /* 0x0 */
        /*0050*/               @P1 BRA 0x10 ;                             /* 0x0 */
        /*0060*/                   EXIT ;                                 /* 0x0 */
        /*0070*/                   BRA 0x70;                              /* 0x0 */
"""
REMARKED = """\
        Function : kernel
        /*0000*/                   LDC R1, c[0x0][0x37c]                  ?trans8;           /* 0x0000df00ff017b82 */
        /*0010*/                   PRMT R2, R3, 0x6420, R4   &req={0,1}   ?WAIT4_END_GROUP;  /* 0x0 */
        /*0020*/              @!P0 BRA 0x60                               ?WAIT5_END_GROUP;  /* 0x0 */
        /*0030*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8     ?WAIT15_END_GROUP; /* 0x0 */
        /*0040*/             @!UP1 LOP3.LUT R2, R2, 0xf, RZ, 0xc0, !PT    ?trans2;           /* 0x0 */
        /*0050*/                   BRA.U UP0, 0x10     &req={1} &rd=0x2   ?trans11;          /* 0x0 */
        /*0060*/                   EXIT                                   ?trans1;           /* 0x0 */
        /*0070*/                   BRA 0x70;                                                 /* 0x0 */
"""
LONGER = PLAIN.replace("HMMA.16816", "HMMA.1 R1;\n/*0038*/ NEW")
CODE = MachineCode(
    registers=96,
    spill_bytes=0,
    shared_bytes=20_000,
    ptx="cp.async.wait_group 2;\nld.global.b16\ncp.async.wait_group 0;",
    text=b"",
    sass=PLAIN,
)
FITTING = CodeBudget(
    registers=96,
    programs=4,
    matrix_units="H",
    decoding=2,
    loads_in_flight=2,
    products=1,
    ptx_without=("b8",),
    loop_without=("STS",),
)


@pytest.mark.parametrize("sass", [PLAIN, REMARKED], ids=["plain", "remarked"])
def test_remarks_on_instructions_are_passed_over(sass: str) -> None:
    code = dataclasses.replace(CODE, sass=sass)
    assert code.loop == {"PRMT": 1, "BRA": 2, "HMMA": 1, "LOP3": 1}
    assert [each.opcode for each in code.instructions].count("LDC") == 1
    assert [each.target for each in code.instructions if each.opcode == "BRA"] == [0x60, 0x10, 0x70]


def test_kernels_disassembled_at_once_are_each_as_by_itself() -> None:
    later = re.sub(r"(?<=/\*)00(?=[0-9a-f]{2}\*/)", "01", PLAIN).replace("BRA 0x", "BRA 0x1")
    codes = [dataclasses.replace(CODE, sass=each) for each in apart(PLAIN + later, [0x100, 0x80])]
    facts = [[(each.at, each.opcode, each.target) for each in code.instructions] for code in (*codes, CODE)]
    assert facts[0] == facts[1] == facts[2]


def test_the_instructions_of_a_kernel_are_a_section_of_its_binary() -> None:
    names = b"\0.text.other\0.text.kernel\0"
    sections = [(0, 0, 0, 0, 0, 0), (1, 1, 6, 0, 0x40, 4), (13, 1, 6, 0, 0x44, 8), (0, 3, 0, 0, 0x4C, len(names))]
    headers = b"".join(struct.pack("<IIQQQQ24x", *each) for each in sections)
    start = b"\x7fELF".ljust(0x28, b"\0") + struct.pack("<Q10xHHH", 0x4C + len(names), 64, len(sections), 3)
    binary = start + b"elseINSTRUCT" + names + headers
    assert text_of(binary, "kernel") == b"INSTRUCT"
    assert text_of(binary, "other") == b"else"
    with pytest.raises(ValueError, match="the binary has no code of kern"):
        text_of(binary, "kern")


def test_code_without_a_loop_has_none() -> None:
    straight = "\n".join(line for line in PLAIN.splitlines() if "BRA 0x10" not in line)
    assert dataclasses.replace(CODE, sass=straight).loop == {}
    assert dataclasses.replace(CODE, sass="").loop == {}


def pipelined(waited: int) -> MachineCode:
    """Two groups of products a turn, whose left operands lie in registers; ``waited``: groups that a wait leaves."""
    turn = [
        "LDSM.16.M88.4 R64, [R10+0x4000]",
        "HGMMA.64x32x16.F32.BF16 R24, R64, gdesc[UR16], R24, gsb0",
        f"WARPGROUP.DEPBAR.LE gsb0, {waited:#x}",
        "HMUL2.BF16_V2 R71, R8, R86.H0_H0",
        "STS [R64], R70",
        "HGMMA.64x32x16.F32.BF16 R24, R68, gdesc[UR16], R24, gsb0",
        f"WARPGROUP.DEPBAR.LE gsb0, {waited:#x}",
        "BRA 0x0",
    ]
    return dataclasses.replace(CODE, sass="\n".join(f"/*{16 * at:04x}*/ {line} ;" for at, line in enumerate(turn)))


def test_registers_of_products_under_way_are_followed() -> None:
    assert pipelined(1).products_in_flight == [1, 1]
    assert pipelined(0).overwritten == pipelined(1).overwritten == []
    assert pipelined(2).overwritten == [0x00, 0x30]
    assert CodeBudget().faults(pipelined(2), 90, 0.0) == ["registers of running products are written at 0x0"]


def test_registers_and_spills_are_read() -> None:
    text = " Function kernel:\n  REG:95 STACK:16 SHARED:0 LOCAL:8 CONSTANT[0]:424 TEXTURE:0"
    assert used(text) == (95, 24)
    with pytest.raises(ValueError, match="no registers"):
        used("Fatal: not a cubin")


def test_what_fits_has_no_faults() -> None:
    assert FITTING.faults(CODE, 89, decoded=1.0) == []
    assert decoding(CODE, 1.0) == 2.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"registers": 97}, "97 registers, at most 96 allowed"),
        ({"spill_bytes": 8}, "8 bytes spilled, at most 0 allowed"),
        ({"shared_bytes": 26_000}, "26000 bytes of shared memory, too many for 4 programs"),
        ({"sass": PLAIN.replace("HMMA", "FFMA")}, "no HMMA in its loop"),
        ({"sass": LONGER.replace("NEW", "HMMA")}, "2 HMMA in its loop, at most 1 wanted"),
        ({"sass": LONGER.replace("NEW", "MOV")}, "3.0 instructions to decode a weight, at most 2"),
        ({"ptx": "cp.async.wait_group 0;"}, "0 loads in flight, at least 2 wanted"),
        ({"ptx": CODE.ptx.replace("b16", "b8")}, "b8 in its PTX"),
        ({"sass": LONGER.replace("NEW", "STS")}, "STS in its loop"),
    ],
)  # fmt: skip
def test_each_fault_is_told(changes: dict[str, object], said: str) -> None:
    assert FITTING.faults(dataclasses.replace(CODE, **changes), 89, decoded=1.0) == [said]


def test_matrix_units_by_card() -> None:
    assert [matrix_opcode(kind, card) for kind, card in (("H", 89), ("H", 90), ("I", 90))] == [
        "HMMA",
        "HGMMA",
        "IGMMA",
    ]
