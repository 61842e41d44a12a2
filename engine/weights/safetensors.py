"""Reads safetensors checkpoints, one tensor at a time. No pickle is ever opened.

A *layout* says which tensors a checkpoint must hold and where each goes. Every one of them must be there once, with
the right shape and type; anything left over is an error that names it. Three layouts are known: as released (here),
int4 as published in the compressed-tensors format (``compressed``), and our own store (``store``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.decoding.protocols import Cancel
from engine.errors import SafelightError, quoted
from engine.files import is_bare_name, open_regular, read_json
from engine.layers.packed_linear import PackedWeight
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import pack

Progress = Callable[[float], None]
"""Called with the share of the weights read so far, 0 to 1."""

DECODER = "model.decoder."
ENCODER = "model.encoder.language_model."
VISION = ("model.encoder.vision_tower.", "model.encoder.embed_vision.")
FLOATING = ("F32", "BF16", "F16")
MOST_FILES = 1_000
MOST_TENSORS = 100_000  # the published int4 checkpoint has 35 000: each expert's matrices apart
HEADER_BYTES = 16 * 2**20  # of one file; 40 000 tensors take about 7 MB
HEADER_VALUES = 6 * MOST_TENSORS  # a tensor has about six: its name, type, offsets, and one for each dimension


# --- files -------------------------------------------------------------------------------------------------------


def shards(folder: Path) -> list[Path]:
    """The checkpoint's safetensors files.

    Raises:
        SafelightError: there are none, or one that the index names is missing or not a name of a file beside it.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise SafelightError(f"{index} has no weight_map; download the model again")
        for name in weight_map.values():
            if not is_bare_name(name):
                raise SafelightError(f"{index} names {quoted(name)}, no file beside it; download the model again")
        files = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = next((path.name for suffix in ("*.bin", "*.pt", "*.pth") for path in folder.glob(suffix)), None)
        hint = f"; {other} is a pickle, which is never opened" if other else ""
        raise SafelightError(f"{folder} has no .safetensors weights{hint}")
    if len(files) > MOST_FILES:
        raise SafelightError(f"{folder} has more than {MOST_FILES:,} files of weights, the most that are read")
    return files


@dataclass(frozen=True)
class Header:
    """What a file says of one of its tensors."""

    file: Path
    shape: tuple[int, ...]
    dtype: str  # as safetensors writes it: "BF16", "I32" …


class Checkpoint:
    """The headers of a folder's safetensors files, and their tensors one by one; one file is open at a time.

    Raises:
        SafelightError: a file is missing, damaged or truncated, its header is out of bounds, or a tensor is doubled.
    """

    def __init__(self, folder: Path, files: Iterable[Path] | None = None) -> None:
        self.folder = folder
        self.headers: dict[str, Header] = {}
        self._file: Path | None = None
        self._opened: Any = None
        for file in shards(folder) if files is None else files:
            opened = self._open(file)
            for name in opened.keys():  # noqa: SIM118 (not a dict)
                if name in self.headers:
                    raise SafelightError(f"{folder}: tensor {name} is stored twice")
                part = opened.get_slice(name)
                self.headers[name] = Header(file, tuple(part.get_shape()), part.get_dtype())
            if len(self.headers) > MOST_TENSORS:
                raise SafelightError(f"{folder} holds more than {MOST_TENSORS:,} tensors, the most that are read")

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU; its memory is the mapped file's until it is copied."""
        file = self.headers[name].file
        try:
            tensor: Tensor = self._open(file).get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:  # torch's: numbers that begin at an odd byte
            raise _damaged(file, error) from error
        return tensor

    def metadata(self, file: Path) -> dict[str, str]:
        """What a file's header says besides its tensors."""
        return dict(self._open(file).metadata() or {})

    def _open(self, file: Path) -> Any:
        if file != self._file:
            _check_header(file)
            try:
                self._file, self._opened = file, safe_open(file, framework="pt")
            except (SafetensorError, OSError) as error:
                raise _damaged(file, error) from error
        return self._opened


def _check_header(file: Path) -> None:
    """See that it is a regular file with a header of a size to be parsed; what it says is the library's to check."""
    try:
        with open_regular(file) as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = opened.read(size) if size <= HEADER_BYTES else b""
    except FileNotFoundError:
        raise SafelightError(f"{file} is missing; download the model again") from None
    except OSError as error:
        raise SafelightError(f"{file} cannot be read: {error.strerror or error}") from error
    if (size > HEADER_BYTES and size <= file.stat().st_size) or header.count(b",") > HEADER_VALUES:
        raise SafelightError(f"{file} has a header out of all proportion; download the model again")


def _damaged(file: Path, error: Exception) -> SafelightError:
    return SafelightError(f"{file} is damaged or truncated ({error}); download it again")


# --- layouts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A tensor that a layout asks for, and what to do with it."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    part: str  # path in the network of the weight it fills, wholly or in part
    put: Callable[[Tensor], None] = field(repr=False)


Layout = dict[str, Expected]
"""Name in the checkpoint -> what is expected there."""


class State:
    """The network's tensors as they come in, on a device; with ``dtype`` None what is not packed keeps its type."""

    def __init__(self, network: DiffusionGemma, device: torch.device, dtype: torch.dtype | None) -> None:
        self.network, self.device, self.dtype = network, device, dtype
        self.tensors: dict[str, Tensor] = {}
        self.packed = {path: m for path, m in network.named_modules() if isinstance(m, PackedWeight)}
        self.plain = dict(network.named_parameters())

    def put(self, path: str, tensor: Tensor) -> None:
        """A plain parameter as it is, or a weight to be packed."""
        if path not in self.packed:
            self.keep(path, tensor)
            return
        made = pack(tensor.to(self.device), self.packed[path].scheme, path)
        self.tensors |= {f"{path}.{part}": packed for part, packed in made.tensors.items()}

    def keep(self, key: str, tensor: Tensor) -> None:
        """A finished tensor. Packed ones on the CPU stay in the mapped file; the others are copied."""
        if key in self.plain:
            tensor = tensor.to(self.device, self.dtype or tensor.dtype, copy=True)
        self.tensors[key] = tensor.to(self.device)

    def final_bytes(self, path: str) -> int:
        """Bytes of a weight once it is here; two a number where it is not packed."""
        if path in self.packed:
            return self.packed[path].scheme.packed_bytes(self.packed[path].shape)
        return 2 * self.plain[path].numel()

    def put_into(self, path: str, part: str, place: Any, tensor: Tensor) -> None:
        """A slice of the codes or scales of a packed weight."""
        key, module = f"{path}.{part}", self.packed[path]
        if key not in self.tensors:
            self.tensors[key] = torch.empty_like(getattr(module, part), device=self.device)
        self.tensors[key][place] = tensor.to(self.device)


def checkpoint_name(parameter: str) -> str:
    """The released name of one of our parameters."""
    if parameter.endswith(".causal_layer_scalar"):
        return ENCODER + parameter.replace("causal_layer_scalar", "layer_scalar")
    return DECODER + parameter


def released(state: State) -> Layout:
    """The layout of Google's checkpoints: plain tensors, experts fused."""
    shapes = {path: tuple(parameter.shape) for path, parameter in state.plain.items()}
    shapes |= {path: module.shape for path, module in state.packed.items()}
    return {
        checkpoint_name(path): Expected(shape, FLOATING, path, partial(state.put, path))
        for path, shape in shapes.items()
    }


def check(checkpoint: Checkpoint, layout: Layout) -> int:
    """Compare a checkpoint's headers with a layout, before anything is read.

    Returns:
        How many vision tensors are in it; they are known, and skipped (images are not supported yet).

    Raises:
        SafelightError: a tensor is missing, surplus, or of another shape or type.
    """
    folder, skipped = checkpoint.folder, 0
    for name, header in checkpoint.headers.items():
        if name.startswith(VISION):
            skipped += 1
        elif name not in layout:
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
    return skipped


def fill(
    checkpoint: Checkpoint, layout: Layout, progress: Progress | None = None, cancel: Cancel | None = None
) -> None:
    """Read every tensor of a checked layout, in the order of the files, and put it in its place.

    Raises:
        SafelightError: a file is damaged, a value is not finite, or ``cancel`` was set.
    """
    names = [name for name in checkpoint.headers if name in layout]
    for done, name in enumerate(names, 1):
        if cancel is not None and cancel.is_set():
            raise SafelightError("loading was cancelled")
        layout[name].put(checkpoint.read(name))
        if progress is not None:
            progress(done / len(names))
