"""Packed weights: codes with their scales, and the schemes that produce them.

A scheme divides the inputs of a weight (..., out, in) into groups. A value is its code's value times its group's scale
(``Scaled``), or that plus the group's minimum; with a scheme that has matrix scales, times the matrix's scale as well.
A weight may have several matrix scales, each for an equal number of consecutive rows. Scales are stored (..., groups,
out), so that neighbouring rows' scales are neighbours in memory; a scheme may join several numbers into one word. Disk,
memory and kernels share one order of codes.

A scheme is a file of its own that subclasses ``Scheme`` and registers an instance by name. Knows neither files nor
modules. Everything here is plain torch and runs on any device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
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
    """A method to pack a weight.

    A subclass defines the class variables that have no value here, ``quantise`` and ``values``; with
    ``has_matrix_scales`` also ``matrix_scale``.
    """

    name: str  # as in the manifests of stored weights
    group_size: int  # consecutive inputs that share a scale; 0: the whole row

    bits: ClassVar[int]  # of a code
    codes_dtype: ClassVar[torch.dtype]
    scale_dtype: ClassVar[torch.dtype]  # as scales are stored
    spread: ClassVar[float]  # standard deviation of the values of uniformly random codes, before scales
    unit: ClassVar[int] = 1  # the number of inputs must be a multiple of it, and of the group size
    unpacking_bytes: ClassVar[int] = 8  # per weight, during ``unpack``: values and their products in fp32
    has_matrix_scales: ClassVar[bool] = False  # an fp32 number per matrix

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def quantise(self, grouped: Tensor, wholes: Tensor | None) -> tuple[Tensor, Tensor]:
        """Quantises fp32 rows in groups (R, groups, G) of matrices with scales ``wholes`` (R, 1).

        Returns:
            The codes (R, bytes), and the scales in the form of ``scales_shape``.
        """

    @abstractmethod
    def values(self, packed: Packed) -> Tensor:
        """Returns the values of a packed weight before matrix scales, fp32 (..., out, groups, G)."""

    def store_scales(self, scales: Tensor) -> Tensor:
        """Returns fp32 scales (..., out, groups), rounded, in the form of ``scales_shape``; minima centre the codes."""
        return scales.to(self.scale_dtype).transpose(-1, -2)

    def matrix_scale(self, matrix: Tensor) -> Tensor:
        """Returns the fp32 scale (), not 0, of a matrix (out, in), by which its groups' scales are divided."""
        raise NotImplementedError

    def codes_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the codes of a weight (..., out, in)."""
        return (*shape[:-1], shape[-1] * self.bits // (8 * self.codes_dtype.itemsize))

    def scales_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the scales of a weight (..., out, in)."""
        return (*shape[:-2], shape[-1] // self.group_size if self.group_size else 1, shape[-2])

    def tensors(self, shape: tuple[int, ...], matrices: int = 1) -> dict[str, TensorSpec]:
        """Returns the tensors of a packed weight (..., out, in), by their names in memory and on disk."""
        specs = {
            "codes": TensorSpec(self.codes_shape(shape), self.codes_dtype),
            "scales": TensorSpec(self.scales_shape(shape), self.scale_dtype),
        }
        if self.has_matrix_scales:
            specs["matrix_scales"] = TensorSpec((*shape[:-2], matrices), torch.float32)
        return specs

    def packed_bytes(self, shape: tuple[int, ...], matrices: int = 1) -> int:
        return sum(prod(spec.shape) * spec.dtype.itemsize for spec in self.tensors(shape, matrices).values())

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Checks that a weight (..., out, in) can be packed.

        Raises:
            SafelightError: its shape does not fit this scheme.
        """
        unit = lcm(self.unit, self.group_size or 1)
        if shape[-1] % unit:
            raise SafelightError(
                f"{name} has {shape[-1]} inputs, which {self} cannot pack: it needs a multiple of {unit}. Load a "
                "bf16 checkpoint of the model with quantization none"
            )


class Scaled(Scheme):
    """A scheme whose values are those of their codes times the scale of their group."""

    @abstractmethod
    def scales(self, extreme: Tensor) -> Tensor:
        """Returns scales, in any float type, of groups whose values farthest from zero are ``extreme`` (fp32)."""

    @abstractmethod
    def encode(self, scaled: Tensor) -> Tensor:
        """Returns the codes (R, bytes) of fp32 rows (R, in) that are divided by their scales."""

    @abstractmethod
    def decode(self, packed: Packed) -> Tensor:
        """Returns the values of the codes before scales, fp32 (..., out, in)."""

    def read_scales(self, stored: Tensor) -> Tensor:
        """Returns stored scales as fp32 (..., out, groups)."""
        return stored.transpose(-1, -2).float()

    def quantise(self, grouped: Tensor, wholes: Tensor | None) -> tuple[Tensor, Tensor]:
        low, high = grouped.amin(dim=-1), grouped.amax(dim=-1)
        extreme = torch.where(high > -low, high, low)
        if wholes is not None:
            grouped, extreme = grouped / wholes[..., None], extreme / wholes
        stored = self.store_scales(self.scales(extreme))
        divisor = self.read_scales(stored)[..., None]
        scaled = grouped / torch.where(divisor == 0, 1.0, divisor)
        return self.encode(scaled.flatten(1)), stored

    def values(self, packed: Packed) -> Tensor:
        scales = self.read_scales(packed.scales)  # (..., out, groups)
        return self.decode(packed).reshape(*scales.shape, -1) * scales[..., None]


SCHEMES: dict[str, Scheme] = {}
SomeScheme = TypeVar("SomeScheme", bound=Scheme)


def register(scheme: SomeScheme) -> SomeScheme:
    """Registers a scheme by its name, and returns it."""
    SCHEMES[scheme.name] = scheme
    return scheme


@dataclass(frozen=True, eq=False)
class Packed:
    """A packed weight, as kernels take it."""

    codes: Tensor  # (..., out, in / codes an element)
    scales: Tensor  # (..., groups, out), or words of several groups
    scheme: Scheme
    matrix_scales: Tensor | None = None  # fp32 (..., matrices), each for an equal share of the rows, or None
    block: int = 0  # rows per block if 4-bit codes are in blocks, see ``nibbles``; 0 if in tiles

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight, (..., out, in)."""
        return (*self.codes.shape[:-1], self.codes.shape[-1] * 8 * self.codes.itemsize // self.scheme.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors, by the names of ``Scheme.tensors``."""
        tensors = {"codes": self.codes, "scales": self.scales}
        return tensors if self.matrix_scales is None else tensors | {"matrix_scales": self.matrix_scales}

    @property
    def row_scales(self) -> Tensor | None:
        """The scale of each row's matrix, fp32 (..., out)."""
        if self.matrix_scales is None:
            return None
        return self.matrix_scales.repeat_interleave(self.codes.shape[-2] // self.matrix_scales.shape[-1], dim=-1)

    def part(self, rows: slice | Tensor) -> Packed:
        """Returns rows of a packed (out, in): a slice of whole blocks as views, or copies of the rows with ids (N,)."""
        scales = self.row_scales
        own = None if scales is None else scales[rows]
        return Packed(self.codes[rows], self.scales[:, rows], self.scheme, own, self.block)

    def rows(self, first: int, end: int) -> Packed:
        """Returns rows first .. end of a packed (out, in), whole blocks only, with contiguous scales."""
        part = self.part(slice(first, end))
        return replace(part, scales=part.scales.contiguous())

    def __getitem__(self, index: int) -> Packed:
        """Returns one expert's weight of a stack."""
        own = None if self.matrix_scales is None else self.matrix_scales[index]
        return Packed(self.codes[index], self.scales[index], self.scheme, own, self.block)


def empty(scheme: Scheme, shape: tuple[int, ...]) -> Packed:
    """Makes room for a packed (out, in) without matrix scales. In groups of 8 bits, a row's scales are neighbours."""
    codes, scales = (torch.empty(spec.shape, dtype=spec.dtype) for spec in scheme.tensors(shape).values())
    is_by_row = scheme.bits == 8 and scheme.group_size > 0
    return Packed(codes, scales.view(scales.shape[::-1]).T if is_by_row else scales, scheme)


def pack(weight: Tensor, scheme: Scheme, name: str = "the weight", matrices: int = 1) -> Packed:
    """Quantises a weight (..., out, in) of one or several matrices, on its own device, a slice at a time.

    Raises:
        SafelightError: the inputs are not a multiple of the group size, or a value is not finite.
    """
    shape = tuple(weight.shape)
    scheme.check(name, shape)
    specs = scheme.tensors(shape, matrices)
    made = {part: weight.new_empty(spec.shape, dtype=spec.dtype) for part, spec in specs.items()}
    packed = Packed(made["codes"], made["scales"], scheme, made.get("matrix_scales"))
    if packed.matrix_scales is not None:
        apart = weight.reshape(-1, shape[-2] // matrices, shape[-1])
        own = torch.stack([scheme.matrix_scale(matrix) for matrix in apart])
        packed.matrix_scales.copy_(own.view(packed.matrix_scales.shape))
    row_scales = None if packed.row_scales is None else packed.row_scales.view(-1, shape[-2])
    codes, scales = (tensor.view(-1, *tensor.shape[-2:]) for tensor in (packed.codes, packed.scales))
    for index, stacked in enumerate(weight.reshape(-1, *shape[-2:])):
        rows = max(1, AT_ONCE // shape[-1])
        for start in range(0, shape[-2], rows):
            part = slice(start, start + rows)
            wholes = None if row_scales is None else row_scales[index, part, None]
            codes[index, part], scales[index, :, part] = scheme.quantise(_grouped(stacked[part], scheme, name), wholes)
    return packed


def _grouped(rows: Tensor, scheme: Scheme, name: str) -> Tensor:
    """Returns finite rows (R, in) as fp32 (R, groups, G)."""
    grouped = rows.float().view(rows.shape[0], -1, scheme.group_size or rows.shape[1])
    if not bool(torch.isfinite(grouped.amax(dim=-1) - grouped.amin(dim=-1)).all()):
        raise SafelightError(f"{name} holds values that are not finite; the checkpoint is damaged, download it again")
    return grouped


def unpack(packed: Packed, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns the unpacked weight (..., out, in): the oracle of every kernel."""
    weight = packed.scheme.values(packed)
    if packed.row_scales is not None:
        weight = weight * packed.row_scales[..., None, None]
    return weight.flatten(-2).to(dtype)
