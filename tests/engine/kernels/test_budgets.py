"""The step's kernels built for three cards at their real shapes: registers, spills, shared memory, matrix units, and
loads of a later turn of the loop that are under way while one is computed: with a stage less there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from engine.kernels import linear8, norms, vocabulary
from engine.kernels.attention import Blocks, attention_kernel, join_kernel
from tests.engine.kernels.compile import TARGETS, Compiled, compiled

HIDDEN, VOCABULARY = 2816, 262_144
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes a program may have
SPILLS = 40  # bytes a thread, of which it is not known whether they lie in a loop; most kernels have none
COUNTS = ("tokens", "text_rows", "positions", "first_tile", "tiles", "count", "capacity", "rows")
STRIDES = ("q_stride", "k_stride", "v_stride")
TYPES = dict.fromkeys(COUNTS + STRIDES, "i32") | dict.fromkeys(("eps", "cap", "embed_scale"), "fp32")


def build(
    kernel: Any, constexprs: Mapping[str, Any], capability: int, warps: int, stages: int = 3, **pointers: str
) -> Compiled:
    """A kernel whose pointers are bf16 unless said otherwise, within its budget."""
    pointed = {name: f"*{pointers.pop(name, 'bf16')}" for name in kernel.arg_names if name.endswith("_ptr")}
    assert not pointers
    found = compiled(kernel, pointed | TYPES, constexprs, capability, num_warps=warps, num_stages=stages)
    assert found.registers <= 255
    assert found.spill_bytes <= SPILLS
    assert found.shared_bytes <= SHARED[capability]
    return found


def on_matrix_units(found: Compiled, capability: int) -> bool:
    return found.opcodes["HGMMA" if capability == 90 else "HMMA"] > 0


@pytest.mark.parametrize("capability", TARGETS)
def test_linear(capability: int) -> None:
    """4096 inputs, 2816 rows, split in three: attention's way out on 132 processors."""
    sizes = {"K": 4096, "ROWS": HIDDEN, "SPLITS": 3, "M": 128, "N": 128, "BLOCK": linear8.BLOCK_INPUTS}
    types = {"codes_ptr": "i8", "scales_ptr": "fp32", "parts_ptr": "fp32", "arrived_ptr": "i32"}
    found = build(linear8.linear8_kernel, sizes, capability, 8, linear8.STAGES, **types)
    assert on_matrix_units(found, capability)
    assert found.loads_in_flight > 0
    assert found.spill_bytes == 0


@pytest.mark.parametrize("capability", TARGETS)
def test_vocabulary_stage(capability: int) -> None:
    shape = {"V": VOCABULARY, "K": HIDDEN, "CHUNK": 132 * vocabulary.TILE_TOKENS}
    block = {"M": 128, "N": 128, "BLOCK": vocabulary.BLOCK_K}
    types = {"table_ptr": "i8", "exponents_ptr": "i32", "highest_ptr": "i32"}
    kept = {"tokens_ptr": "i32", "statistics_ptr": "fp32", "scales_ptr": "fp32"}
    score = build(
        vocabulary.score_kernel,
        {**shape, **block, "HAS_SCALES": True, "HAS_FORBIDDEN": True},
        capability,
        8,
        vocabulary.STAGES,
        **types,
        **kept,
        forbidden_ptr="i1",
        temperature_ptr="fp32",
        draw_ptr="i64",
    )
    assert on_matrix_units(score, capability)
    assert score.spill_bytes == 0
    assert score.loads_in_flight > 0
    more = {"TILE": vocabulary.TILE_TOKENS, "SPLITS": 3, "FIRST": False}
    sizes = {**shape, **block, **more}
    embed = build(vocabulary.embed_kernel, sizes, capability, 8, vocabulary.STAGES, **types, soft_ptr="fp32")
    assert on_matrix_units(embed, capability)
    assert embed.loads_in_flight > 0
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
        "COLUMNS": blocks.columns,
    }
    types = {"span_ptr": "i32", "parts_ptr": "fp32", "weights_ptr": "fp32"}
    found = build(attention_kernel, sizes, capability, blocks.warps, blocks.stages, **types)
    assert on_matrix_units(found, capability)
    assert found.spill_bytes == 0
    if capability != 90 or head_dim == 256:  # else there is no room for a third block of keys
        assert found.loads_in_flight > 0
    products = Counter(opcode + rest.split()[0] for opcode, rest in found.loop_code if "MMA" in opcode)
    if capability == 90:  # of 64 rows a warp group: scores once, in products as wide as the block of keys; then values
        assert products == {"HGMMA.64x32x16.F32.BF16": head_dim // 16, "HGMMA.64x256x16.F32.BF16": 2}
    else:
        ideal = 2 * blocks.queries * blocks.keys * head_dim // (16 * 8 * 16) // blocks.warps
        assert products.total() <= (1 if head_dim == 256 else 1.5) * ideal


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
