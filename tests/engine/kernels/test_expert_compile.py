"""The expert kernels' machine code at the real model's shapes: registers, spills, instructions for a weight."""

from __future__ import annotations

from functools import cache

import pytest

from engine.kernels.expert_gemm import COMBINE, Blocks, combine_kernel, down_kernel, gate_up_kernel
from engine.kernels.expert_sort import CHUNK, group_kernel
from engine.weights.quantize import SCHEMES

from .compile import TARGETS, Compiled, compiled

HIDDEN, WIDTH, TOP_K, EXPERTS = 2816, 704, 8, 128
CANVAS = 256 * TOP_K / EXPERTS  # pairs an expert
PROMPT = 4 * CANVAS
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes a program may have
DECODE = ("PRMT", "LOP3", "SHF", "HFMA2", "HMUL2", "MOV", "IMAD")
# Instructions that decode a weight, moves of tables and addresses included, and all of the loop's. Reached: int4 2.0 to
# 2.4 and 3.0 to 3.8, nf4 4.2 to 4.8 and 5.7 to 6.2.
BUDGETS = {"int4-g32": (2.5, 3.9), "nf4-g64": (4.8, 6.3)}
POINTERS = {"pairs_ptr": "*i32", "offsets_ptr": "*i32", "tiles_ptr": "*i32", "words_ptr": "*i16", "scales_ptr": "*i32"}


@cache
def product(kernel: str, scheme: str, pairs: float, capability: int) -> tuple[Compiled, float]:
    """gate_up or down for a card, and the weights a thread decodes in one turn of its loop."""
    kind, blocks = SCHEMES[scheme], Blocks.of(capability // 10, pairs)
    options = {"H": HIDDEN, "WIDTH": WIDTH, "GROUP": kind.group_size, "IS_NF4": kind.name == "nf4", "PTX": True}
    signature = POINTERS | {"x_ptr": "*bf16", "inner_ptr": "*bf16", "weights_ptr": "*fp32", "parts_ptr": "*bf16"}
    if kernel == "gate_up":
        function, options = gate_up_kernel, options | {"TOP_K": TOP_K, "M": blocks.rows}
    else:
        function, options = down_kernel, options | {"M": blocks.down_rows(HIDDEN)}
    options |= {"N": blocks.tokens, "TILES": blocks.turn(HIDDEN if kernel == "gate_up" else WIDTH, kind)}
    built = compiled(function, signature, options, capability, num_warps=blocks.warps, num_stages=blocks.stages)
    return built, 2 * options["M"] * 64 * options["TILES"] / (32 * blocks.warps)


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize("scheme", BUDGETS)
@pytest.mark.parametrize("kernel", ["gate_up", "down"])
def test_a_canvas_decodes_in_registers_within_budget(kernel: str, scheme: str, capability: int) -> None:
    built, weights = product(kernel, scheme, CANVAS, capability)
    assert built.spill_bytes == 0
    programs = 3 if weights > 64 else 4  # of four warps, on a multiprocessor
    assert built.registers <= 65536 // (128 * programs)
    assert programs * built.shared_bytes <= SHARED[capability]
    loop = built.loop
    assert loop["STS"] == 0, "decoded weights go by shared memory"
    assert loop["LDG"] == 0, "scales or codes are loaded when they are needed"
    assert built.loads_in_flight > 0
    assert loop["HGMMA" if capability == 90 else "HMMA"] > 0
    assert all(built.products_in_flight), "a product is waited for before the next weights are decoded"
    decoding, every = BUDGETS[scheme]
    assert sum(loop[opcode] for opcode in DECODE) / weights <= decoding
    assert loop.total() / weights <= (3.2 if weights > 64 else every)


@pytest.mark.parametrize("capability", TARGETS)
def test_a_prompt_builds_without_spills(capability: int) -> None:
    built, _ = product("gate_up", "int4-g32", PROMPT, capability)
    assert built.spill_bytes == 0
    assert built.registers <= 255
    assert 2 * built.shared_bytes <= SHARED[capability]


@pytest.mark.parametrize("capability", TARGETS)
def test_sort_and_combine_build_without_spills(capability: int) -> None:
    signature = {"chosen_ptr": "*i64", "count": "i32", **POINTERS}
    sort = compiled(group_kernel, signature, {"BLOCK": 32, "CHUNK": CHUNK}, capability, num_warps=8)
    signature = {"parts_ptr": "*bf16", "out_ptr": "*bf16"}
    combine = compiled(combine_kernel, signature, {"TOP_K": TOP_K, "H": HIDDEN, "BLOCK": COMBINE}, capability)
    for built in (sort, combine):
        assert built.spill_bytes == 0
        assert built.registers <= 96
