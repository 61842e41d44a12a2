"""Every Triton kernel of a step at the real model's shapes, as a kind of card launches it, with its budget.

To add a kernel, add a line to its part: its constants, the types of arguments that ``build.TYPES`` does not know, and
its code budget.
"""

from __future__ import annotations

from typing import Any

from engine.kernels import (
    attention,
    expert_gemm,
    linear_w4a16,
    linear_w8a16,
    norms,
    router,
    settle,
    vocabulary,
)
from engine.kernels.linear_w8a16 import PROCESSORS
from engine.kernels.reference_step import TILE_TOKENS
from engine.quant import INT4, NF4, NVFP4, UINT4, Scheme
from tests.engine.kernels.machine.budgets import CodeBudget
from tests.engine.kernels.machine.build import Build

HIDDEN, WIDTH, TOP_K, EXPERTS, VOCABULARY = 2816, 704, 8, 128, 262_144
CANVAS_PAIRS = 256 * TOP_K / EXPERTS  # of an expert
PROMPT_PAIRS = 4 * CANVAS_PAIRS
LLADA2 = (2048, 512, True)  # its hidden size, its experts' width, and that they have SiLU
BLOCK_PAIRS = 32 * TOP_K / 256  # of one of its experts
AHEAD = CodeBudget(has_products=True, loads_in_flight=1)


def step_kernels(capability: int) -> list[Build]:
    """Returns all kernels of a step for a compute capability of ``TARGETS``."""
    parts = (_experts, _router, _linears, _linears_four_bit, _norms, _attention, _vocabulary, _ends)
    return [build for part in parts for build in part(capability)]


def _experts(capability: int) -> list[Build]:
    builds = [
        _product(kernel, scheme, CANVAS_PAIRS, capability)
        for scheme in (INT4, NF4, NVFP4)
        for kernel in ("gate_up", "down")
    ]
    few = CodeBudget(registers=96)
    sort = {"BLOCK": 32, "CHUNK": router.CHUNK}
    combine = {"TOP_K": TOP_K, "H": HIDDEN, "BLOCK": expert_gemm.COMBINE}
    return [
        *builds,
        _product("gate_up", INT4, PROMPT_PAIRS, capability, is_prompt=True),
        _product("gate_up", INT4, BLOCK_PAIRS, capability, LLADA2),
        Build("experts", "group", capability, router.group_kernel, sort, few),
        Build(
            "experts", "combine", capability, expert_gemm.combine_kernel, combine, few,
            warps=4, types={"parts_ptr": "bf16"},
        ),
    ]  # fmt: skip


def _product(
    kernel: str,
    scheme: Scheme,
    pairs: float,
    capability: int,
    shape: tuple[int, int, bool] = (HIDDEN, WIDTH, False),
    *,
    is_prompt: bool = False,
) -> Build:
    """Returns gate_up or down, with so many pairs per expert."""
    hidden, width, has_silu = shape
    blocks = expert_gemm.ProductBlocks.for_card(capability // 10, pairs)
    rows = blocks.rows if kernel == "gate_up" else blocks.down_rows(hidden)
    tiles = blocks.turn(hidden if kernel == "gate_up" else width, scheme)
    constants = {
        "H": hidden, "WIDTH": width, "GROUP": scheme.group_size, "CODES": expert_gemm.CODES[scheme],
        "PTX": True, "M": rows, "N": blocks.tokens, "TILES": tiles,
    }  # fmt: skip
    constants |= {} if scheme.has_matrix_scales else {"matrix_scales_ptr": None}
    function: Any = expert_gemm.gate_up_kernel if kernel == "gate_up" else expert_gemm.down_kernel
    types = {"scales_ptr": "i32"}
    if kernel == "gate_up":
        constants |= {"TOP_K": TOP_K, "SILU": has_silu}
    else:
        types |= {"weights_ptr": "fp32", "parts_ptr": "bf16"}
    budget, note = CodeBudget(programs=2), " prompt"
    if not is_prompt:
        programs = 4 if tiles == 1 else 3  # of four warps, at once on a multiprocessor
        budget = CodeBudget(65536 // (128 * programs), 0, programs, has_products=True, loads_in_flight=1)
        note = " silu" if has_silu else ""
    return Build(
        "experts", f"{kernel} {scheme}{note}", capability, function, constants, budget,
        blocks.warps, blocks.stages, types,
    )  # fmt: skip


def _linears(capability: int) -> list[Build]:
    # Inputs and rows of a canvas's products, whether a program has a tile to itself, and whether gate and up are one:
    # attention output; queries, keys and values in one; the dense MLP's gate and up.
    products = (
        ("out", 4096, HIDDEN, False, False),
        ("qkv", HIDDEN, 8192, True, False),
        ("gated", HIDDEN, 4224, False, True),
    )
    block = {"M": linear_w8a16.BLOCK_ROWS, "N": linear_w8a16.BLOCK_TOKENS, "BLOCK": linear_w8a16.BLOCK_INPUTS}
    return [
        Build(
            "linear", f"linear8 {name}", capability, linear_w8a16.linear_w8a16_kernel,
            block | {"K": size, "ROWS": rows, "WHOLE": whole, "GATED": gated}, AHEAD, stages=linear_w8a16.STAGES,
        )
        for name, size, rows, whole, gated in products
    ]  # fmt: skip


def _linears_four_bit(capability: int) -> list[Build]:
    """Returns WeDLM-8B's widest product for a window of 16 tokens; it is not in the real model's step."""
    size, rows = 4096, 12_288
    blocks = linear_w4a16.LinearBlocks.for_shape(16, size)
    constants = {
        "K": size, "ROWS": rows, "OUT": rows, "SPLITS": 2, "PTX": True, "N": blocks.tokens, "M": blocks.rows,
        "TILES": blocks.tiles, "matrix_scale_ptr": None,
    }  # fmt: skip
    budget = CodeBudget(96, 0, linear_w4a16.PROGRAMS, has_products=True, loads_in_flight=1)
    return [
        Build(
            "linear", f"linear4 {scheme}", capability, linear_w4a16.linear_w4a16_kernel,
            constants | {"GROUP": scheme.group_size, "CODES": expert_gemm.CODES[scheme]}, budget,
            blocks.warps, blocks.stages, {"scales_ptr": "i32"},
        )
        for scheme in (INT4, UINT4)
    ]  # fmt: skip


def _router(capability: int) -> list[Build]:
    sizes = {
        "K": HIDDEN, "EXPERTS": EXPERTS, "PADDED": EXPERTS, "TOP_K": TOP_K, "PADDED_K": TOP_K,
        "N": router.BLOCK_TOKENS, "BLOCK": router.BLOCK_INPUTS,
    }  # fmt: skip
    types = {"weights_ptr": "fp32"}
    return [
        Build(
            "experts", f"router{note}", capability, router.router_kernel, sizes | {"SPLITS": splits}, AHEAD,
            router.WARPS, router.STAGES, types,
        )
        for note, splits in (("", 8), (" prompt", 1))
    ]  # fmt: skip


def _norms(capability: int) -> list[Build]:
    few, block = CodeBudget(registers=96), {"H": HIDDEN, "BLOCK": 4096}
    heads = {"HEADS": 16, "KV_HEADS": 2, "D": 512}
    added, merged = block | {"NORMS": 3, "SPLIT": True}, block | {"TOP_K": TOP_K}
    return [
        Build("norms", "norm", capability, norms.norm_kernel, block, few),
        Build("norms", "add_norm", capability, norms.add_norm_kernel, added, few),
        Build("norms", "merge_norm", capability, norms.merge_norm_kernel, merged, few),
        Build("norms", "head_norm_rope", capability, norms.head_norm_rope_kernel, heads, few, warps=1),
    ]


def _ends(capability: int) -> list[Build]:
    """Returns the kernels before the layers and after the vocabulary stage."""
    few = CodeBudget(registers=96)
    # Positions go up to 262 143 radians, where a fast cosine is wrong in the second digit.
    exact = CodeBudget(ptx_without=("cos.approx", "sin.approx"))
    rows = {"H": HIDDEN, "HAS_SCALES": True, "BLOCK": 4096}
    canvas = {"C": 256, "PADDED": 256, "BLOCK": settle.BLOCK}
    types = {"entropy_ptr": "fp32", "tokens_ptr": "i64"}
    return [
        Build("ends", "embed_rows", capability, norms.embed_rows_kernel, rows, few),
        Build("ends", "rope", capability, norms.rope_kernel, {"HALF": 256}, exact, 4, types={"start_ptr": "i64"}),
        Build("ends", "settle", capability, settle.settle_kernel, canvas, CodeBudget(), types=types),
    ]


def _attention(capability: int) -> list[Build]:
    kinds = ((kind, text) for kind in (("sliding", 256, 8, 1024), ("full", 512, 2, 0)) for text in (False, True))
    sizes = {"D": 512, "SPLITS": attention.MAX_SPLITS, "PADDED": attention.MAX_SPLITS}
    join = Build(
        "attention", "join", capability, attention.join_kernel, sizes, CodeBudget(registers=96),
        warps=4, types={"weights_ptr": "fp32"},
    )  # fmt: skip
    return [*(_attend(capability, *kind, text) for kind, text in kinds), join]


def _attend(capability: int, kind: str, size: int, kv_heads: int, window: int, text: bool) -> Build:
    """Returns attention of a kind of layer, to a canvas alone or with text before it."""
    blocks = attention.AttentionBlocks.for_head(size, large=capability == 90)
    constants = {
        "HEADS": 16, "GROUP": 16 // kv_heads, "D": size, "TEXT": text, "WINDOW": window,
        "SPLITS": 1 if text else 2, "M": blocks.queries, "N": blocks.keys, "COLUMNS": blocks.columns,
    }  # fmt: skip
    ahead = int(capability != 90 or size == 256)  # otherwise there is no room for a third block of keys
    return Build(
        "attention", f"attention {kind}{' text' if text else ''}", capability, attention.attention_kernel, constants,
        CodeBudget(has_products=True, loads_in_flight=ahead), blocks.warps, blocks.stages,
        {"weights_ptr": "fp32"},
    )  # fmt: skip


def _vocabulary(capability: int) -> list[Build]:
    shape = {"V": VOCABULARY, "K": HIDDEN, "CHUNK": PROCESSORS * TILE_TOKENS}
    block = {"M": linear_w8a16.BLOCK_TOKENS, "N": TILE_TOKENS, "BLOCK": vocabulary.BLOCK_K}
    more = {"TILE": TILE_TOKENS, "N": vocabulary.BLOCK_HIDDEN, "SPLITS": 3, "FIRST": False}
    merge = {
        "K": HIDDEN, "SPLITS": 3, "HAS_SCALES": True, "HAS_PINNED": True,
        "TILES": vocabulary.MERGE_TILES, "N": vocabulary.MERGE_POSITIONS, "BLOCK": vocabulary.BLOCK_HIDDEN,
    }  # fmt: skip
    # Rows of the table are loaded in pieces of 16 bytes, ahead of their use.
    rows = CodeBudget(spill_bytes=40, has_products=True, loads_in_flight=1, ptx_without=("ld.global.b8",))
    score = shape | block | {"HAS_SCALES": True, "HAS_FORBIDDEN": True}
    return [
        *(
            Build(
                "vocabulary", f"score{note}", capability, vocabulary.score_kernel,
                score | {"EACH": each}, AHEAD, stages=vocabulary.STAGES,
            )
            for note, each in (("", False), (" several runs", True))
        ),
        Build(
            "vocabulary", "embed", capability, vocabulary.embed_kernel, shape | block | more, rows,
            stages=vocabulary.STAGES, types={"soft_ptr": "fp32"},
        ),
        Build("vocabulary", "merge", capability, vocabulary.merge_kernel, merge, CodeBudget(), warps=4),
    ]  # fmt: skip
