"""The step's kernels built for three cards at their real shapes: registers, spills, shared memory, matrix units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from engine.kernels import inputs, linear8, norms, router, settle, vocabulary
from engine.kernels.attention import Blocks, attention_kernel, join_kernel
from tests.engine.kernels.compile import TARGETS, Compiled, compiled

HIDDEN, VOCABULARY = 2816, 262_144
SHARED = {89: 99 << 10, 90: 227 << 10, 120: 99 << 10}  # bytes a program may have
SPILLS = 40  # bytes a thread, of which it is not known whether they lie in a loop; most kernels have none
COUNTS = (
    "first",
    "tokens",
    "text_rows",
    "positions",
    "first_tile",
    "tiles",
    "count",
    "capacity",
    "rows",
    "share",
    "span",
    "programs",
    "second",
)
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


# Inputs and rows of a canvas's products, whether a program has a tile to itself, and whether gate and up are one:
# attention's way out; queries, keys and values in one; the dense MLP's way in.
PRODUCTS = {
    "out": (4096, HIDDEN, False, False),
    "in": (HIDDEN, 8192, True, False),
    "gated": (HIDDEN, 4224, False, True),
}


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_linear(product: str, capability: int) -> None:
    inputs, rows, whole, gated = PRODUCTS[product]
    sizes = {"K": inputs, "ROWS": rows, "WHOLE": whole, "GATED": gated, "M": 128, "N": 128}
    types = {"codes_ptr": "i8", "scales_ptr": "fp32", "parts_ptr": "fp32", "arrived_ptr": "i32"}
    found = build(linear8.linear8_kernel, sizes | {"BLOCK": linear8.BLOCK_INPUTS}, capability, 8, **types)
    assert on_matrix_units(found, capability)
    assert found.spill_bytes == 0


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize("splits", [1, 8])
def test_router(splits: int, capability: int) -> None:
    """A long piece of text, and a canvas."""
    sizes = {"K": HIDDEN, "EXPERTS": 128, "PADDED": 128, "TOP_K": 8, "PADDED_K": 8}
    sizes |= {"SPLITS": splits, "N": router.BLOCK_TOKENS}
    types = {"weights_ptr": "fp32", "chosen_ptr": "i64", "parts_ptr": "fp32", "arrived_ptr": "i32"}
    found = build(router.router_kernel, sizes | {"BLOCK": router.BLOCK_INPUTS}, capability, 4, 4, **types)
    assert on_matrix_units(found, capability)
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
        **types,
        **kept,
        forbidden_ptr="i1",
        temperature_ptr="fp32",
        draw_ptr="i64",
    )
    assert on_matrix_units(score, capability)
    assert score.spill_bytes == 0
    more = {"TILE": vocabulary.TILE_TOKENS, "SPLITS": 3, "FIRST": False}
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
        build(norms.norm_kernel, {"H": HIDDEN, "BLOCK": 4096}, capability, 8),
        build(norms.add_norm_kernel, {"H": HIDDEN, "NORMS": 3, "SPLIT": True, "BLOCK": 4096}, capability, 8),
        build(norms.merge_norm_kernel, {"H": HIDDEN, "TOP_K": 8, "BLOCK": 4096}, capability, 8),
        build(norms.head_norm_rope_kernel, {"HEADS": 16, "KV_HEADS": 2, "D": 512}, capability, 1, end_ptr="i32"),
        build(
            inputs.embed_rows_kernel,
            {"H": HIDDEN, "HAS_SCALES": True, "BLOCK": 4096},
            capability,
            8,
            ids_ptr="i64",
            table_ptr="i8",
            scales_ptr="fp32",
        ),
    ]
    assert all(kernel.spill_bytes == 0 and kernel.registers <= 96 for kernel in small)


def test_rope_tables_reduce_large_angles_exactly() -> None:
    """Positions go up to 262 143 radians, where a fast cosine is wrong in the second digit."""
    types = {"start_ptr": "i64", "frequencies_ptr": "fp32"}
    found = build(inputs.rope_kernel, {"HALF": 256}, 90, 4, **types)
    assert not re.search(r"(cos|sin)\.approx", found.ptx)


def test_a_step_s_end() -> None:
    types = dict.fromkeys(("argmax", "candidate", "noise", "tokens", "canvas", "previous"), "i64")
    types |= dict.fromkeys(("unchanged", "step", "draw"), "i64") | dict.fromkeys(("nonfinite", "flags"), "i32")
    types |= dict.fromkeys(("entropy", "limits", "told_entropy"), "fp32")
    pointers = {f"{name}_ptr": kind for name, kind in types.items()}
    found = build(settle.settle_kernel, {"C": 256, "PADDED": 256, "BLOCK": settle.BLOCK}, 90, 8, **pointers)
    assert found.spill_bytes == 0
