"""Layers whose weights are packed. Each replaces its unpacked counterpart, under the same names.

An unpacked ``q_proj.weight`` is ``q_proj.weight.codes`` and ``q_proj.weight.scales`` here. Activations keep
the model's own number type.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine import kernels
from engine.config import GELU, Activation
from engine.kernels import cpu_int4, cpu_int8, reference
from engine.kernels.native import matrices
from engine.layers.embedding import TokenTable
from engine.layers.mlp import Experts
from engine.quant import INT8, NF4, NF4_F32, UINT4, Packed, Precision, Scheme

PACKABLE = (Experts, TokenTable, nn.Linear)
"""The layers that have a packed form."""


class PackedWeight(nn.Module):
    """The tensors of a packed weight (..., out, in) that stacks ``matrices`` matrices, to be filled by a loader."""

    codes: Tensor
    scales: Tensor
    matrix_scales: Tensor | None

    def __init__(self, shape: tuple[int, ...], scheme: Scheme, name: str, matrices: int = 1) -> None:
        super().__init__()
        scheme.check(name, shape)
        self.shape, self.scheme, self.matrices = shape, scheme, matrices
        self.block = 0  # rows per block, if the codes are in blocks: see ``for_processor``
        self.register_buffer("matrix_scales", None)
        for part, spec in scheme.tensors(shape, matrices).items():
            self.register_buffer(part, torch.empty(spec.shape, dtype=spec.dtype))

    @property
    def packed(self) -> Packed:
        return Packed(self.codes, self.scales, self.scheme, self.matrix_scales, self.block)


class PackedLinear(nn.Module):
    """x (..., in) -> (..., out). The bias (out,) is not packed."""

    def __init__(self, weight: PackedWeight, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        out = kernels.linear(x, self.weight.packed)
        return out if self.bias is None else out + self.bias


class PackedExperts(nn.Module):
    """E gated MLPs, as ``Experts``."""

    def __init__(self, gate_up_proj: PackedWeight, down_proj: PackedWeight, activation: Activation = GELU) -> None:
        super().__init__()
        self.gate_up_proj = gate_up_proj
        self.down_proj = down_proj
        self.activation = activation

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Runs the experts: x (N, H), weights and chosen (N, K) -> (N, H)."""
        return kernels.experts(x, weights, chosen, self.gate_up_proj.packed, self.down_proj.packed, self.activation)


class PackedTokenTable(nn.Module):
    """A table (V, H), as ``TokenTable``."""

    def __init__(self, weight: PackedWeight, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.dtype = weight, dtype

    def forward(self, ids: Tensor) -> Tensor:
        return reference.rows(self.weight.packed, ids, self.dtype)

    @property
    def table(self) -> Packed:
        return self.weight.packed

    def logits(self, hidden: Tensor) -> Tensor:
        return kernels.linear(hidden, self.weight.packed)

    def expectation(self, probabilities: Tensor) -> Tensor:
        return kernels.expectation(probabilities.to(self.dtype), self.weight.packed)


def packed_weights(network: nn.Module) -> list[PackedWeight]:
    return [module for module in network.modules() if isinstance(module, PackedWeight)]


def for_processor(part: nn.Module, dtype: torch.dtype) -> None:
    """Arranges loaded weights as a device's kernels read them. Does nothing without such kernels.

    int4: the codes of experts and linear layers are reordered in place; a token table, whose rows are looked up, stays
    unchanged. The scales of linear layers become a view of the form that the kernel reads, which takes twice their
    bytes. The scales of experts, of which there are many, are converted one expert at a time.

    int8: codes in a mapped file are copied if the kernel could not read them there.

    nf4 with fp32 scales: cards read them in bf16.
    """
    if dtype != torch.bfloat16:
        return
    for weight in packed_weights(part):
        if weight.scheme == NF4_F32 and kernels.run_on(weight.codes.device, dtype):
            weight.scheme, weight.scales = NF4, weight.scales.bfloat16()
        is_int8 = weight.scheme == INT8 and weight.codes.device.type == "cpu"
        if is_int8 and cpu_int8.is_fast() and not cpu_int8.is_aligned(weight.codes):
            weight.codes = weight.codes.clone()
    layers = [module for module in part.modules() if isinstance(module, PackedExperts | PackedLinear)]
    for weight in (weight for layer in layers for weight in packed_weights(layer)):
        on_cpu = weight.codes.device.type == "cpu"
        block = cpu_int4.block_for(weight.packed) if on_cpu and not weight.block else 0
        if block:
            packed = weight.packed
            for one in [packed] if packed.codes.dim() == 2 else map(packed.__getitem__, range(len(packed.codes))):
                matrices.to_blocks(one, block)
            weight.block = block
            if packed.codes.dim() == 2 and packed.scheme != UINT4:
                weight.scales = cpu_int4.spread(packed.scales)[..., 0]


def precision_in(network: nn.Module, precision: Precision) -> Precision:
    """Returns the precision that applies in a network: without experts, ``Precision.for_dense``."""
    has_experts = any(isinstance(module, Experts | PackedExperts) for module in network.modules())
    return precision if has_experts else precision.for_dense()


def install(network: nn.Module, precision: Precision, dtype: torch.dtype) -> None:
    """Replaces the layers that ``precision_in`` packs. The network has no weights yet (meta device).

    Raises:
        SafelightError: a layer's inputs are not a multiple of the scheme's group size.
    """
    precision = precision_in(network, precision)
    for path, module in list(network.named_modules()):
        scheme = precision.scheme(path)
        if scheme is None:
            continue

        def weight(
            name: str, shape: torch.Size, matrices: int = 1, scheme: Scheme = scheme, path: str = path
        ) -> PackedWeight:
            return PackedWeight(tuple(shape), scheme, f"{path}.{name}", matrices)

        match module:
            case Experts():
                packed: nn.Module = PackedExperts(
                    weight("gate_up_proj", module.gate_up_proj.shape, matrices=2),
                    weight("down_proj", module.down_proj.shape),
                    module.activation,
                )
            case TokenTable():
                packed = PackedTokenTable(weight("weight", module.weight.shape), dtype)
            case nn.Linear():
                packed = PackedLinear(weight("weight", module.weight.shape), module.bias)
            case _:
                continue
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, packed)
