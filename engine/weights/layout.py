"""The tensors that a checkpoint must hold, and the place of each in a network.

Every tensor of a *layout* must be there once, with the right shape and type; anything left over is an error that names
it. Four kinds are known: as released (``matrices``), quantised as they are published (``published``), our own store
(``packed_store``), and GGUF (``gguf``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from engine.errors import SafelightError
from engine.layers.packed_linear import PackedWeight
from engine.quant import Packed, empty, pack
from engine.types import Cancel, Progress
from engine.weights.safetensors import FLOATING, Header

Place: TypeAlias = "tuple[int | slice | Tensor, ...]"
"""The part of a weight: all of it (), a matrix of a stack (index,), or rows (slice,) or (indices,)."""


class TensorSource(Protocol):
    """The tensors of a checkpoint: ``safetensors.Checkpoint``, ``gguf.checkpoint.GGUFCheckpoint``."""

    @property
    def folder(self) -> Path: ...
    @property
    def headers(self) -> Mapping[str, Header]: ...
    def read(self, name: str) -> Tensor: ...


@dataclass(frozen=True)
class Expected:
    """A tensor that a layout requires, and the function that stores it."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    part: str  # path in the network of the weight it fills, wholly or in part
    put: Callable[[Tensor], None] = field(repr=False)
    take: Callable[[str], None] | None = field(default=None, repr=False)  # reads and stores it by its name, for ``put``


VISION = "vision."
"""Beginning of the paths of the tower that reads images, in a network that has one."""

Layout = dict[str, Expected]
"""By its name in the checkpoint, each expected tensor."""


@dataclass(frozen=True)
class Names:
    """The names of tensors in a family's released checkpoints."""

    released: Callable[[str], str]  # returns the name of one of our parameters
    skipped: tuple[str, ...] = ()  # prefixes of parts that are not read if the network lacks them
    ignored: re.Pattern[str] | None = None  # names of tensors that are left out if the network lacks them
    has_single_experts: bool = False  # experts are stored one by one, and gate and up of each; else stacked


class State:
    """The network's tensors on a device, collected while they are read; ``dtype`` None keeps the type of unpacked ones.

    The tensors of the tower that reads images stay in the computer's memory, from where they are lent to the device.
    """

    def __init__(self, network: nn.Module, device: torch.device, dtype: torch.dtype | None) -> None:
        self.network, self.device, self.dtype = network, device, dtype
        self.tensors: dict[str, Tensor] = {}
        self.packed = {path: m for path, m in network.named_modules() if isinstance(m, PackedWeight)}
        self.plain = dict(network.named_parameters())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all weights, by their paths."""
        plain = {path: tuple(parameter.shape) for path, parameter in self.plain.items()}
        return plain | {path: module.shape for path, module in self.packed.items()}

    def put(self, path: str, tensor: Tensor, place: Place = ()) -> None:
        """Stores a plain parameter as it is, or packs a weight; with ``place``, only that part."""
        if path not in self.packed:
            self.keep(path, tensor, place)
            return
        module, tensor = self.packed[path], tensor.to(self.device)
        rows = place[-1] if place and isinstance(place[-1], slice | Tensor) else None
        matrices = module.matrices if rows is None else tensor.shape[-2] * module.matrices // module.shape[-2]
        assert matrices or not module.scheme.has_matrix_scales  # a matrix in pieces would have several
        self.put_packed(path, pack(tensor, module.scheme, path, max(1, matrices)), place)

    def put_packed(self, path: str, made: Packed, place: Place = ()) -> None:
        """Stores a weight, or the part at ``place``, that is packed already."""
        if not place:
            end = self.device_of(path)
            self.tensors |= {f"{path}.{name}": packed.to(end) for name, packed in made.tensors.items()}
            return
        for name, packed in made.tensors.items():
            self.put_into(path, name, place, packed)

    def room(self, path: str, place: Place) -> Packed:
        """Returns the room of a packed matrix, or of the rows at ``place`` (slice,), for a reader to fill."""
        module, codes, scales = self.packed[path], f"{path}.codes", f"{path}.scales"
        if codes not in self.tensors:
            made = empty(module.scheme, module.shape)
            self.tensors |= {codes: made.codes, scales: made.scales}
        whole = Packed(self.tensors[codes], self.tensors[scales], module.scheme)
        return whole.part(place[0]) if place and isinstance(place[0], slice) else whole

    def keep(self, key: str, tensor: Tensor, place: Place = ()) -> None:
        """Stores a finished tensor or a part. On the CPU packed ones stay in the mapped file; others are copied."""
        if place:
            whole = self.plain[key].shape
            if key not in self.tensors:
                self.tensors[key] = torch.empty(whole, dtype=self.dtype or tensor.dtype, device=self.device_of(key))
            self.tensors[key][place] = tensor.to(self.device_of(key), self.dtype or tensor.dtype)
            return
        if key in self.plain:
            tensor = tensor.to(self.device_of(key), self.dtype or tensor.dtype, copy=True)
        self.tensors[key] = tensor.to(self.device_of(key))

    def device_of(self, path: str) -> torch.device:
        """Returns the device that a tensor of the network stays on."""
        is_parked = path.startswith(VISION) and self.device.type not in ("cpu", "meta")
        return torch.device("cpu") if is_parked else self.device

    def final_bytes(self, path: str) -> int:
        """Returns the bytes of a weight once it is loaded; two a number if it is not packed."""
        if path in self.packed:
            module = self.packed[path]
            return module.scheme.packed_bytes(module.shape, module.matrices)
        return 2 * self.plain[path].numel()

    def put_into(self, path: str, part: str, place: Place, tensor: Tensor) -> None:
        """Stores one tensor of a packed weight's part at ``place``."""
        key, module = f"{path}.{part}", self.packed[path]
        *outer, last = place
        if part == "scales" and isinstance(last, slice | Tensor):
            place = (*outer, slice(None), last)
        elif part == "matrix_scales" and isinstance(last, slice):
            first, end = (row * module.matrices // module.shape[-2] for row in (last.start, last.stop))
            place = (*outer, slice(first, end))
        if key not in self.tensors:
            own = getattr(module, part)  # made by its shape: ``empty_like`` of a meta tensor imports torch's compiler
            self.tensors[key] = torch.empty(own.shape, dtype=own.dtype, device=self.device)
        self.tensors[key][place] = tensor.to(self.device)


def check(checkpoint: TensorSource, layout: Layout, names: Names) -> int:
    """Compares a checkpoint's headers with a layout, before anything is read.

    Returns:
        The number of tensors whose names ``names`` skips.

    Raises:
        SafelightError: a tensor is missing, surplus, or of another shape or type.
    """
    folder, count = checkpoint.folder, 0
    skipped = tuple(part for part in names.skipped if not any(name.startswith(part) for name in layout))
    for name, header in checkpoint.headers.items():
        if name.startswith(skipped):
            count += 1
        elif name not in layout:
            if names.ignored is not None and names.ignored.fullmatch(name):
                continue
            raise SafelightError(f"{folder}: tensor {name} is not part of this model; the checkpoint does not fit")
        elif header.shape != layout[name].shape:
            raise SafelightError(
                f"{folder}: tensor {name} has shape {header.shape}; config.json asks for {layout[name].shape}"
            )
        elif header.dtype not in layout[name].dtypes:
            expected = "floating point" if layout[name].dtypes == FLOATING else " or ".join(layout[name].dtypes)
            raise SafelightError(f"{folder}: tensor {name} has the type {header.dtype}; expected {expected}")
    missing = sorted(layout.keys() - checkpoint.headers.keys())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SafelightError(f"{folder}: tensor {missing[0]} is missing{more}; download the model again")
    return count


def fill(
    checkpoint: TensorSource, layout: Layout, progress: Progress | None = None, cancel: Cancel | None = None
) -> None:
    """Reads every tensor of a checked layout, in the order of the files, and stores it.

    Raises:
        SafelightError: a file is damaged, a value is not finite, or ``cancel`` was set.
    """
    names = [name for name in checkpoint.headers if name in layout]
    for done, name in enumerate(names, 1):
        if cancel is not None and cancel.is_set():
            raise SafelightError("loading was cancelled")
        expected = layout[name]
        if expected.take is None:
            expected.put(checkpoint.read(name))
        else:
            expected.take(name)
        if progress is not None:
            progress(done / len(names))
