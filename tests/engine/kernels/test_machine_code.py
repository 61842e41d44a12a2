"""What of a kernel's machine code breaks a budget. Needs no Triton."""

from __future__ import annotations

import dataclasses

import pytest

from tests.engine.kernels.machine.budgets import CodeBudget, decoding
from tests.engine.kernels.machine.machine_code import MachineCode

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
