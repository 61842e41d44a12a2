"""The step's kernels built for three cards at their real shapes: registers, spills, shared memory, matrix units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from engine.kernels import int8_products, linear8, norms, vocabulary
from engine.kernels.attention import Blocks, attention_kernel, join_kernel
from engine.kernels.reference import GROUP
from tests.engine.kernels.compile import TARGETS, Compiled, compiled

HIDDEN, VOCABULARY = 2816, 262_144
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes a program may have
SPILLS = 40  # bytes a thread, of which it is not known whether they lie in a loop; most kernels have none
COUNTS = ("tokens", "text_rows", "positions", "first_tile", "tiles", "size", "count", "capacity", "rows")
STRIDES = ("q_stride", "k_stride", "v_stride")
TYPES = dict.fromkeys(COUNTS + STRIDES, "i32") | dict.fromkeys(("eps", "cap", "embed_scale"), "fp32")


def build(
    kernel: Any,
    constexprs: Mapping[str, Any],
    capability: int,
    warps: int,
    stages: int = 3,
    spills: int = SPILLS,
    **pointers: str,
) -> Compiled:
    """A kernel whose pointers are bf16 unless said otherwise, within its budget."""
    pointed = {name: f"*{pointers.pop(name, 'bf16')}" for name in kernel.arg_names if name.endswith("_ptr")}
    assert not pointers
    found = compiled(kernel, pointed | TYPES, constexprs, capability, num_warps=warps, num_stages=stages)
    assert found.registers <= 255
    assert found.spill_bytes <= spills
    assert found.shared_bytes <= SHARED[capability]
    return found


def on_matrix_units(found: Compiled, capability: int) -> bool:
    return found.opcodes["HGMMA" if capability == 90 else "HMMA"] > 0


@pytest.mark.parametrize("capability", TARGETS)
def test_linear(capability: int) -> None:
    """4096 inputs, 2816 rows, split in three: attention's way out on 132 processors."""
    sizes = {"K": 4096, "ROWS": HIDDEN, "SPLITS": 3, "M": 128, "N": 128, "BLOCK": linear8.BLOCK_INPUTS}
    types = {"codes_ptr": "i8", "scales_ptr": "fp32", "parts_ptr": "fp32", "arrived_ptr": "i32"}
    found = build(linear8.linear8_kernel, sizes, capability, 8, **types)
    assert on_matrix_units(found, capability)
    assert found.spill_bytes == 0


@pytest.mark.parametrize("capability", TARGETS)
def test_vocabulary_stage(capability: int) -> None:
    shape = {"V": VOCABULARY, "K": HIDDEN, "CHUNK": 132 * vocabulary.TILE_TOKENS}
    block = {"M": 128, "N": 128, "BLOCK": vocabulary.BLOCK_K}
    types = {"table_ptr": "i8", "exponents_ptr": "i32", "highest_ptr": "i32"}
    none = {"hidden_scales_ptr": None, "units_ptr": None}
    kept = {"tokens_ptr": "i32", "statistics_ptr": "fp32", "scales_ptr": "fp32"}
    score = build(
        vocabulary.score_kernel,
        {**shape, **block, **none, "HAS_SCALES": True, "HAS_FORBIDDEN": True},
        capability,
        8,
        **types,
        **kept,
        forbidden_ptr="i1",
        temperature_ptr="fp32",
        draw_ptr="i64",
    )
    assert on_matrix_units(score, capability)
    assert score.spill_bytes == 0
    more = {"TILE": vocabulary.TILE_TOKENS, "SPLITS": 3, "FIRST": False, "units_ptr": None}
    embed = build(vocabulary.embed_kernel, {**shape, **block, **more}, capability, 8, **types, soft_ptr="fp32")
    assert on_matrix_units(embed, capability)
    assert "ld.global.b8" not in embed.ptx  # rows of the table come in pieces of 16 bytes, ahead of their use
    blocks = {"TILES": vocabulary.MERGE_TILES, "N": vocabulary.MERGE_POSITIONS, "BLOCK": vocabulary.BLOCK_HIDDEN}
    results = {"argmax_ptr": "i64", "candidate_ptr": "i64", "entropy_ptr": "fp32", "logsumexp_ptr": "fp32"}
    merge = build(
        vocabulary.merge_kernel,
        {"K": HIDDEN, "SPLITS": 3, "HAS_SCALES": True, "HAS_PINNED": True, **blocks},
        capability,
        4,
        **types,
        **kept,
        **results,
        pinned_ptr="i32",
        soft_parts_ptr="fp32",
        nonfinite_ptr="i32",
    )
    assert merge.spill_bytes == 0


def on_int8_units(found: Compiled, capability: int) -> bool:
    return found.opcodes["IGMMA" if capability == 90 else "IMMA"] > 0


@pytest.mark.parametrize("capability", TARGETS)
def test_linear_int8(capability: int) -> None:
    """As ``test_linear``: no code is converted, and a block of 128 inputs takes fewer than 350 instructions."""
    sizes = {"K": 4096, "ROWS": HIDDEN, "SPLITS": 3, "M": 128, "N": 128, "BLOCK": GROUP}
    scales = {"x_scales_ptr": "fp32", "scales_ptr": "fp32"}
    types = {"x_ptr": "i8", "codes_ptr": "i8", "parts_ptr": "fp32", "arrived_ptr": "i32", **scales}
    found = build(int8_products.linear_int8_kernel, sizes, capability, 8, **types)
    assert on_int8_units(found, capability)
    assert found.spill_bytes == 0
    assert found.loop["I2F"] == found.loop["PRMT"] == 0
    assert sum(found.loop.values()) < 350


@pytest.mark.parametrize("capability", TARGETS)
def test_vocabulary_stage_int8(capability: int) -> None:
    """The head on 8-bit units everywhere, with a soft embedding on them where these are four times as fast as bf16."""
    shape = {"V": VOCABULARY, "K": HIDDEN, "CHUNK": 132 * vocabulary.TILE_TOKENS}
    block = {"M": 128, "N": 128, "BLOCK": GROUP}
    table = {"table_ptr": "i8", "exponents_ptr": "i32", "highest_ptr": "i32"}
    soft = {} if capability == 90 else {"weights_ptr": "i8", "units_ptr": "fp32"}
    score = build(
        vocabulary.score_kernel,
        {**shape, **block, "HAS_SCALES": True, "HAS_FORBIDDEN": True, **({} if soft else {"units_ptr": None})},
        capability,
        8,
        spills=80 if capability == 89 else SPILLS,  # none in the loop
        **table,
        **soft,
        hidden_ptr="i8",
        hidden_scales_ptr="fp32",
        tokens_ptr="i32",
        statistics_ptr="fp32",
        scales_ptr="fp32",
        forbidden_ptr="i1",
        temperature_ptr="fp32",
        draw_ptr="i64",
    )
    assert on_int8_units(score, capability)
    assert sum(score.loop.values()) < 350  # of the products, over 128 of the hidden size
    assert score.loop["LDL"] == score.loop["STL"] == 0
    if soft:
        more = {"TILE": vocabulary.TILE_TOKENS, "SPLITS": 3, "FIRST": False}
        embed = build(
            vocabulary.embed_kernel, {**shape, **block, **more}, capability, 8, **table, **soft, soft_ptr="fp32"
        )
        assert on_int8_units(embed, capability)
        assert embed.spill_bytes == 0


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("head_dim", "kv_heads"), [(256, 8), (512, 2)])
def test_attention(head_dim: int, kv_heads: int, text: bool, capability: int) -> None:
    blocks = Blocks.of(head_dim, large=capability == 90)
    sizes = {
        "HEADS": 16,
        "GROUP": 16 // kv_heads,
        "D": head_dim,
        "TEXT": text,
        "WINDOW": 1024 if head_dim == 256 else 0,
        "SPLITS": 1 if text else 2,
        "M": blocks.queries,
        "N": blocks.keys,
    }
    types = {"span_ptr": "i32", "parts_ptr": "fp32", "weights_ptr": "fp32"}
    found = build(attention_kernel, sizes, capability, blocks.warps, blocks.stages, **types)
    assert on_matrix_units(found, capability)
    assert text or found.spill_bytes == 0
    if capability == 90 and head_dim == 256:  # the next keys are on their way while these are multiplied
        assert int(re.findall(r"cp\.async\.wait_group\s+(\d+)", found.ptx)[0]) > 0


def test_small_kernels() -> None:
    capability = 90
    sizes = {"D": 512, "SPLITS": 8, "PADDED": 8}
    small = [
        build(join_kernel, sizes, capability, 4, parts_ptr="fp32", weights_ptr="fp32"),
        build(norms.add_norm_kernel, {"H": HIDDEN, "NORMS": 3, "BLOCK": 4096}, capability, 8),
        build(norms.merge_norm_kernel, {"H": HIDDEN, "BLOCK": 4096}, capability, 8),
        build(norms.head_norm_rope_kernel, {"HEADS": 16, "KV_HEADS": 2, "D": 512}, capability, 1, start_ptr="i32"),
    ]
    assert all(kernel.spill_bytes == 0 and kernel.registers <= 96 for kernel in small)
