"""The shapes of small networks that are measured as a whole, and their work.

A call inside a pass takes longer than the same call alone, which finds its code and its numbers in the nearest cache.
What the layers of these networks take beyond their parts is that difference. They have some text before them, whose
keys and values have to be fetched as well.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from engine.memory.pass_work import AttentionLayers, ExpertLayers, MatrixProduct, PassWork

Family = Literal["causal", "diffusion"]
Kind = Literal["fp32", "bf16", "4 bits"]
FAMILIES: tuple[Family, ...] = get_args(Family)
KINDS: tuple[Kind, ...] = get_args(Kind)
HIDDEN = (128, 576)  # sizes that are measured
HEAD = 64  # numbers of a head
LAYERS = 8  # so many that what they read does not stay in the nearest cache
TEXT = 256  # tokens before the rows
FEW_KINDS = ("int4", "int8")  # weights of networks whose few rows are measured, in all layers at once
FEW_HIDDEN = (576, 1536)
FEW_KEYS = (TEXT, 2048)
EXPERTS, CHOSEN = 8, 2  # of a layer of diffusion, and of a token
WINDOW = 1024


def key_heads(heads: int) -> int:
    """Returns the heads of keys for so many of queries: a half or a third of them, or one."""
    return next((heads // share for share in (2, 3) if heads % share == 0), 1)


def layer_weights(hidden: int) -> int:
    """Returns the weights of a causal layer."""
    return hidden * (11 * hidden + 2 * HEAD * key_heads(hidden // HEAD))


def expert_width(hidden: int) -> int:
    return max(HEAD, hidden // 3 // HEAD * HEAD)


def kind_of(work: PassWork) -> Kind:
    """Returns the kind of reference that a model's layers are most like."""
    numbers = {one.numbers for one in work.products} | {one.numbers for one in work.experts}
    if numbers - {"fp32", "bf16"}:
        return "4 bits"
    return "bf16" if work.is_bf16 else "fp32"


@cache
def reference_work(family: Family, kind: Kind, hidden: int, has_kernel: bool) -> PassWork:
    """Returns the work of a reference network; its 4-bit weights have torch's kernel or are decoded."""
    heads, keys = hidden // HEAD, HEAD * key_heads(hidden // HEAD)
    four = "int4" if has_kernel else "table"
    is_causal = family == "causal"
    numbers = {"fp32": "fp32", "bf16": "bf16", "4 bits": four if is_causal else "int8"}[kind]
    inner = 3 * hidden if is_causal else hidden
    products = [
        MatrixProduct(numbers, hidden, hidden, 2 * LAYERS),  # queries, and what was attended to
        MatrixProduct(numbers, hidden, inner, 2 * LAYERS),
        MatrixProduct(numbers, inner, hidden, LAYERS),
    ]
    experts = []
    if is_causal:
        products.append(MatrixProduct(numbers, hidden, keys, 2 * LAYERS))
        attention = [AttentionLayers(heads * HEAD, None, LAYERS)]
    else:  # every other layer sees all; its keys are its values
        products += [
            MatrixProduct(numbers, hidden, keys, LAYERS),
            MatrixProduct(numbers, hidden, HEAD, LAYERS // 2),
            MatrixProduct("fp32" if kind == "fp32" else "bf16", hidden, EXPERTS, LAYERS),  # routers
        ]
        attention = [AttentionLayers(heads * HEAD, window, LAYERS // 2) for window in (WINDOW, None)]
        width = expert_width(hidden)
        if kind == "4 bits":
            experts.append(ExpertLayers(four, EXPERTS, CHOSEN, hidden, width, LAYERS))
        else:  # few, so that all are computed
            products.append(MatrixProduct(numbers, hidden, 2 * EXPERTS * width, LAYERS))
            products.append(MatrixProduct(numbers, EXPERTS * width, hidden, LAYERS))
    is_bf16 = kind == "bf16" or (kind == "4 bits" and not is_causal)
    head = MatrixProduct("bf16" if is_bf16 else "fp32", hidden, HEAD)
    return PassWork(
        is_bf16, hidden, HEAD, 1, LAYERS, tuple(products), tuple(experts), tuple(attention), head, (),
        denoises=not is_causal, is_program=False, reads_whole=False, in_steps=not is_causal,
    )  # fmt: skip
