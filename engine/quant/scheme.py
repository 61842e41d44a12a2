"""Packed weights: codes with their scales, and the schemes that produce them.

A scheme divides the inputs of a weight (..., out, in) into groups. A group's values are its codes' times its scale;
with a scheme that has a global scale, times that of the whole matrix as well. Scales are stored (..., groups, out), so
that neighbouring rows' scales are neighbours in memory. Disk, memory and kernels share one order of codes.

A scheme is a file of its own that subclasses ``Scheme`` and registers an instance by name. Knows neither files nor
modules. Everything here is plain torch and runs on any device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import lcm, prod
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from engine.errors import SafelightError

AT_ONCE = 1 << 24  # weights quantised at a time, so that the fp32 copies stay small


class TensorSpec(NamedTuple):
    """Shape and type of a tensor to be created."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Scheme(ABC):
    """How a weight is packed.

    A subclass defines the class variables that have no value here, ``scales``, ``encode`` and ``decode``; with
    ``has_global_scale`` also ``global_scale``.
    """

    name: str  # as in the manifests of stored weights
    group_size: int  # consecutive inputs that share a scale; 0: the whole row

    bits: ClassVar[int]  # of a code
    codes_dtype: ClassVar[torch.dtype]
    scale_dtype: ClassVar[torch.dtype]
    spread: ClassVar[float]  # standard deviation of the values of uniformly random codes, before scales
    unit: ClassVar[int] = 1  # the number of inputs must be a multiple of it, and of the group size
    unpacking_bytes: ClassVar[int] = 8  # per weight, during ``unpack``: values and their products in fp32
    has_global_scale: ClassVar[bool] = False  # one fp32 number per matrix

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def scales(self, extreme: Tensor) -> Tensor:
        """Scales for groups whose values farthest from zero are ``extreme``, fp32 of any shape, in any float type."""

    @abstractmethod
    def encode(self, scaled: Tensor) -> Tensor:
        """fp32 rows (R, in), divided by their scales -> codes (R, bytes)."""

    @abstractmethod
    def decode(self, packed: Packed) -> Tensor:
        """The values of the codes before scales, fp32 (..., out, in)."""

    def global_scale(self, matrix: Tensor) -> Tensor:
        """The fp32 scale () of a matrix (out, in), by which its groups' scales are divided."""
        raise NotImplementedError

    def codes_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the codes of a weight (..., out, in)."""
        return (*shape[:-1], shape[-1] * self.bits // (8 * self.codes_dtype.itemsize))

    def scales_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the scales of a weight (..., out, in)."""
        return (*shape[:-2], shape[-1] // self.group_size if self.group_size else 1, shape[-2])

    def tensors(self, shape: tuple[int, ...]) -> dict[str, TensorSpec]:
        """The tensors of a packed weight (..., out, in), by their names in memory and on disk."""
        found = {
            "codes": TensorSpec(self.codes_shape(shape), self.codes_dtype),
            "scales": TensorSpec(self.scales_shape(shape), self.scale_dtype),
        }
        if self.has_global_scale:
            found["global_scale"] = TensorSpec(shape[:-2], torch.float32)
        return found

    def packed_bytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of a packed weight (..., out, in)."""
        return sum(prod(spec.shape) * spec.dtype.itemsize for spec in self.tensors(shape).values())

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """
        Raises:
            SafelightError: a weight (..., out, in) of this shape cannot be packed in this scheme.
        """
        unit = lcm(self.unit, self.group_size or 1)
        if shape[-1] % unit:
            raise SafelightError(
                f"{name} has {shape[-1]} inputs, which {self} cannot pack: it needs a multiple of {unit}. Load "
                "the model with quantization none"
            )


SCHEMES: dict[str, Scheme] = {}
"""All schemes by name."""

SomeScheme = TypeVar("SomeScheme", bound=Scheme)


def register(scheme: SomeScheme) -> SomeScheme:
    """Register a scheme by its name; returns it."""
    SCHEMES[scheme.name] = scheme
    return scheme


@dataclass(frozen=True, eq=False)
class Packed:
    """A packed weight, as kernels take it."""

    codes: Tensor  # (..., out, in / codes an element)
    scales: Tensor  # (..., groups, out)
    scheme: Scheme
    global_scale: Tensor | None = None  # fp32 (...); None: the scheme has none
    block: int = 0  # rows per block if 4-bit codes are in blocks, see ``nibbles``; 0 if in tiles

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight, (..., out, in)."""
        return (*self.codes.shape[:-1], self.codes.shape[-1] * 8 * self.codes.itemsize // self.scheme.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by the names of ``Scheme.tensors``."""
        found = {"codes": self.codes, "scales": self.scales}
        return found if self.global_scale is None else found | {"global_scale": self.global_scale}

    def part(self, rows: slice | Tensor) -> Packed:
        """Rows of a packed (out, in): a slice of whole blocks as views, or copies of the rows with ids (N,)."""
        return Packed(self.codes[rows], self.scales[:, rows], self.scheme, self.global_scale, self.block)

    def rows(self, first: int, end: int) -> Packed:
        """Rows first .. end of a packed (out, in), whole blocks only, with contiguous scales."""
        scales = self.scales[:, first:end].contiguous()
        return Packed(self.codes[first:end], scales, self.scheme, self.global_scale, self.block)

    def __getitem__(self, index: int) -> Packed:
        """One expert's weight of a stack."""
        whole = None if self.global_scale is None else self.global_scale[index]
        return Packed(self.codes[index], self.scales[index], self.scheme, whole, self.block)


def pack(weight: Tensor, scheme: Scheme, name: str = "the weight") -> Packed:
    """Quantise a weight (..., out, in) on the device it is on, a slice at a time.

    Raises:
        SafelightError: the inputs are not a multiple of the group size, or a value is not finite.
    """
    shape = tuple(weight.shape)
    scheme.check(name, shape)
    made = {part: weight.new_empty(spec.shape, dtype=spec.dtype) for part, spec in scheme.tensors(shape).items()}
    packed = Packed(made["codes"], made["scales"], scheme, made.get("global_scale"))
    codes, scales = (tensor.view(-1, *tensor.shape[-2:]) for tensor in (packed.codes, packed.scales))
    for index, matrix in enumerate(weight.reshape(-1, *shape[-2:])):
        whole = None
        if packed.global_scale is not None:
            whole = packed.global_scale.view(-1)[index] = scheme.global_scale(matrix)
        rows = max(1, AT_ONCE // shape[-1])
        for start in range(0, matrix.shape[0], rows):
            part = slice(start, start + rows)
            codes[index, part], scales[index, :, part] = _pack_rows(matrix[part].float(), scheme, whole, name)
    return packed


def _pack_rows(rows: Tensor, scheme: Scheme, global_scale: Tensor | None, name: str) -> tuple[Tensor, Tensor]:
    """fp32 rows (R, in) -> codes (R, bytes) and scales (groups, R)."""
    grouped = rows.view(rows.shape[0], -1, scheme.group_size or rows.shape[1])  # (R, groups, G)
    low, high = grouped.amin(dim=-1), grouped.amax(dim=-1)
    if not bool(torch.isfinite(high - low).all()):
        raise SafelightError(f"{name} holds values that are not finite; the checkpoint is damaged, download it again")
    extreme = torch.where(high > -low, high, low)
    if global_scale is not None:
        extreme = extreme / global_scale
    scales = scheme.scales(extreme).to(scheme.scale_dtype)
    divisor = _full(scales.float(), global_scale)[..., None]
    scaled = grouped / torch.where(divisor == 0, 1.0, divisor)
    return scheme.encode(scaled.view(rows.shape)), scales.T


def _full(scales: Tensor, global_scale: Tensor | None) -> Tensor:
    """fp32 scales (..., out, groups) times the global scale (...)."""
    return scales if global_scale is None else scales * global_scale[..., None, None]


def unpack(packed: Packed, dtype: torch.dtype = torch.float32) -> Tensor:
    """The unpacked weight (..., out, in): the oracle of every kernel."""
    scales = _full(packed.scales.transpose(-1, -2).float(), packed.global_scale)  # (..., out, groups)
    grouped = packed.scheme.decode(packed).reshape(*scales.shape, -1)
    weight: Tensor = grouped * scales[..., None]
    return weight.flatten(-2).to(dtype)


def squared_error(weight: Tensor, packed: Packed) -> tuple[float, float]:
    """Sums of squares: of what packing changed in a weight (..., out, in), and of the weight; a slice at a time."""
    error = total = 0.0
    stack = [packed] if weight.dim() == 2 else [packed[index] for index in range(weight.shape[0])]
    rows = max(1, AT_ONCE // weight.shape[-1])
    for matrix, made in zip(weight.view(-1, *weight.shape[-2:]), stack, strict=True):
        for start in range(0, matrix.shape[0], rows):
            part = slice(start, start + rows)
            before = matrix[part].float()
            error += float((unpack(made.part(part)) - before).square().sum())
            total += float(before.square().sum())
    return error, total
