"""The work of a model's passes on a processor, from its shape: products, experts and attention.

Knows neither times nor this machine; ``speed`` makes seconds of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import torch
from torch import nn

from engine.config import ModelConfig
from engine.kernels import cpu_int4, native
from engine.kernels.native.matrices import UNIT
from engine.layers.embedding import TokenTable
from engine.layers.mlp import SelfConditioning
from engine.layers.moe import ExpertGate, Experts
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedTokenTable, PackedWeight
from engine.memory.footprint import Build, Mode, one_of_each
from engine.quant import INT8, INT8_G16, INT8_G32, UINT4, Packed

BYTES = {
    "fp32": 4.0, "bf16": 2.0, "int8": 1.0, "int8 in fp32": 1.0, "int8 groups": 1.0625, "int4": 0.5625, "table": 0.5625,
}  # fmt: skip
"""Bytes that a weight takes, by its numbers: "int4" lies as torch's kernel reads it, "table" is decoded first."""


@dataclass(frozen=True)
class MatrixProduct:
    """Equal products of rows with matrices (outputs, inputs)."""

    numbers: str  # a name of ``BYTES``
    inputs: int
    outputs: int
    count: int = 1

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True)
class ExpertLayers:
    """Equal layers of experts; a row takes ``chosen`` of them."""

    numbers: str
    experts: int
    chosen: int
    hidden: int
    inner: int
    count: int = 1


@dataclass(frozen=True)
class AttentionLayers:
    """Equal layers of attention, to a window of keys or to all."""

    width: int  # numbers of all query heads together
    window: int | None
    count: int = 1


Part = TypeVar("Part", MatrixProduct, ExpertLayers, AttentionLayers)


@dataclass(frozen=True)
class PassWork:
    """The work of a model's passes."""

    is_bf16: bool  # activations
    hidden: int
    vocabulary: int
    canvas: int  # rows of a step
    depth: int  # layers
    products: tuple[MatrixProduct, ...]  # in the layers, for every row
    experts: tuple[ExpertLayers, ...]
    attention: tuple[AttentionLayers, ...]
    head: MatrixProduct
    fed_back: tuple[MatrixProduct, ...]  # self-conditioning, in denoising steps alone
    denoises: bool  # has DiffusionGemma's steps
    is_program: bool  # whose logits are never whole
    reads_whole: bool
    in_steps: bool  # writes several tokens at once by default
    in_c: bool = False  # whose few rows go through all layers in one call, see ``few_rows``


@lru_cache(maxsize=256)
def pass_work(build: Build, config: ModelConfig, mode: Mode, in_steps: bool) -> PassWork:
    """Counts the work of a shape on a processor.

    Raises:
        SafelightError: the precision does not suit the shape.
    """
    dtype = mode.dtype
    network, times = one_of_each(build, config, mode.precision, dtype)
    products, fed_back = Counter[MatrixProduct](), Counter[MatrixProduct]()
    experts = Counter[ExpertLayers]()
    head = None
    conditioning = [path for path, module in network.named_modules() if isinstance(module, SelfConditioning)]
    for path, module in network.named_modules():
        if path.startswith("vision.") or not (count := times(path)):
            continue
        into = fed_back if any(path.startswith(f"{own}.") for own in conditioning) else products
        match module:
            case PackedExperts():
                experts[_stack(config, _packed_numbers(module.gate_up_proj, dtype))] += count
            case Experts() if not config.runs_all_experts:
                experts[_stack(config, _plain(dtype))] += count
            case Experts():
                every = config.num_experts * config.moe_intermediate_size
                into[MatrixProduct(_plain(dtype), config.hidden_size, 2 * every)] += count
                into[MatrixProduct(_plain(dtype), every, config.hidden_size)] += count
            case ExpertGate():
                into[MatrixProduct("fp32", config.hidden_size, config.num_experts)] += count
            case TokenTable() | PackedTokenTable() | nn.Linear() | PackedLinear():
                found = _product(module, dtype)
                if path == "lm_head" or (path == "embed_tokens" and head is None):
                    head = found
                elif path != "embed_tokens":
                    into[found] += count
            case _:
                pass
    assert head is not None, "every network has a token table"
    plain = not (experts or fed_back or config.denoises or config.reads_whole or config.num_experts)
    plain &= all(one.numbers != "table" for one in (head, *products))
    in_c = plain and native.library() is not None and all(layer.head_dim % UNIT == 0 for layer in config.layers)
    attention = Counter[AttentionLayers]()
    for layer in config.layers:
        window = config.sliding_window if layer.is_sliding else None
        attention[AttentionLayers(config.num_attention_heads * layer.head_dim, window)] += 1
    return PassWork(
        dtype == torch.bfloat16, config.hidden_size, config.vocab_size, config.canvas_length, len(config.layers),
        _counted(products), _counted(experts), _counted(attention), head, _counted(fed_back),
        config.denoises, mode.is_program, config.reads_whole, in_steps, in_c,
    )  # fmt: skip


def _counted(found: Counter[Part]) -> tuple[Part, ...]:
    return tuple(replace(one, count=count) for one, count in found.items())


def _stack(config: ModelConfig, numbers: str) -> ExpertLayers:
    width = config.moe_intermediate_size
    return ExpertLayers(numbers, config.num_experts, config.top_k_experts, config.hidden_size, width)


def _product(module: TokenTable | PackedTokenTable | nn.Linear | PackedLinear, dtype: torch.dtype) -> MatrixProduct:
    if isinstance(module, PackedLinear | PackedTokenTable):
        outputs, inputs = module.weight.shape
        in_blocks = isinstance(module, PackedLinear)
        return MatrixProduct(_packed_numbers(module.weight, dtype, in_blocks), inputs, outputs)
    outputs, inputs = module.weight.shape
    return MatrixProduct(_plain(dtype), inputs, outputs)


def _plain(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def _packed_numbers(weight: PackedWeight, dtype: torch.dtype, in_blocks: bool = True) -> str:
    packed: Packed = weight.packed
    is_bf16 = dtype == torch.bfloat16
    if packed.scheme == INT8:
        return "int8" if is_bf16 else "int8 in fp32"
    if packed.scheme in (INT8_G16, INT8_G32):
        return "int8 groups"
    by_kernel = in_blocks and (is_bf16 or packed.scheme == UINT4) and cpu_int4.block_for(packed) > 0
    return "int4" if by_kernel else "table"
