"""Layers whose weights are packed. Each stands in for the layer of the same duty, under the same names.

A weight called ``q_proj.weight`` there is ``q_proj.weight.codes`` and ``q_proj.weight.scales`` here. Activations keep
the model's own number type.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine import kernels
from engine.layers.embedding import TokenTable
from engine.layers.moe import Experts
from engine.models.diffusion_gemma import DiffusionGemma
from engine.weights.quantize import BF16, Activations, Packed, Precision, Scheme


class PackedWeight(nn.Module):
    """Codes and scales of a weight (..., out, in); filled by a loader."""

    codes: Tensor
    scales: Tensor

    def __init__(self, shape: tuple[int, ...], scheme: Scheme, name: str) -> None:
        super().__init__()
        scheme.check(name, shape)
        self.shape, self.scheme = shape, scheme
        self.register_buffer("codes", torch.empty(scheme.codes_shape(shape), dtype=scheme.codes_dtype))
        self.register_buffer("scales", torch.empty(scheme.scales_shape(shape), dtype=scheme.scale_dtype))

    @property
    def packed(self) -> Packed:
        return Packed(self.codes, self.scales, self.scheme)


class PackedLinear(nn.Module):
    """x (..., in) -> (..., out); with ``rounds`` x is rounded to int8."""

    def __init__(self, weight: PackedWeight, rounds: bool = False) -> None:
        super().__init__()
        self.weight, self.rounds = weight, rounds

    def forward(self, x: Tensor) -> Tensor:
        product = kernels.linear_int8 if self.rounds else kernels.linear
        return product(x, self.weight.packed)


class PackedExperts(nn.Module):
    """E gated MLPs, as ``Experts``."""

    def __init__(self, gate_up_proj: PackedWeight, down_proj: PackedWeight) -> None:
        super().__init__()
        self.gate_up_proj = gate_up_proj
        self.down_proj = down_proj

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """x (N, H), weights and chosen (N, K) -> (N, H)."""
        return kernels.experts(x, weights, chosen, self.gate_up_proj.packed, self.down_proj.packed)


class PackedTokenTable(nn.Module):
    """A table (V, H), as ``TokenTable``."""

    def __init__(self, weight: PackedWeight, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.dtype = weight, dtype

    def forward(self, ids: Tensor) -> Tensor:
        return kernels.rows(self.weight.packed, ids, self.dtype)

    @property
    def table(self) -> Packed:
        return self.weight.packed

    def logits(self, hidden: Tensor) -> Tensor:
        return kernels.linear(hidden, self.weight.packed)

    def expectation(self, probabilities: Tensor) -> Tensor:
        return kernels.expectation(probabilities.to(self.dtype), self.weight.packed)


def packed_weights(network: nn.Module) -> list[PackedWeight]:
    """All packed weights of a network."""
    return [module for module in network.modules() if isinstance(module, PackedWeight)]


def install(network: DiffusionGemma, precision: Precision, dtype: torch.dtype, activations: Activations = BF16) -> None:
    """Replace the layers that ``precision`` packs. The network is empty still (on the meta device).

    Linear layers of 8 bits round their activations where ``activations`` says so.

    Raises:
        SafelightError: a layer whose inputs do not divide into the scheme's groups.
    """
    for path, module in list(network.named_modules()):
        scheme = precision.scheme(path)
        if scheme is None:
            continue

        def weight(name: str, shape: torch.Size, scheme: Scheme = scheme, path: str = path) -> PackedWeight:
            return PackedWeight(tuple(shape), scheme, f"{path}.{name}")

        match module:
            case Experts():
                packed: nn.Module = PackedExperts(
                    weight("gate_up_proj", module.gate_up_proj.shape), weight("down_proj", module.down_proj.shape)
                )
            case TokenTable():
                packed = PackedTokenTable(weight("weight", module.weight.shape), dtype)
            case nn.Linear():
                rounds = activations.linears and scheme.bits == 8
                packed = PackedLinear(weight("weight", module.weight.shape), rounds)
            case _:
                continue
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, packed)
