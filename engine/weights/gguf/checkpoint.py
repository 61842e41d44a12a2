"""The tensors of a GGUF file, dequantised piece by piece, and their layout.

A stack of experts is read matrix by matrix, and a large table by rows, so that no more than a piece is in memory in
fp32. Each piece has its own name: ``blk.0.ffn_down_exps.weight[7]``, ``token_embd.weight[0:5957]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import SafelightError
from engine.files import open_regular, read_up_to
from engine.quant import Packed, empty
from engine.weights.gguf.header import GGUFHeader, TensorInfo
from engine.weights.gguf.kept import KEPT, packed_of, read_in_c
from engine.weights.layout import Expected, Layout, Names, Place, State
from engine.weights.safetensors import Header

MAX_PIECES = 2**17  # of a file; DiffusionGemma's has 8 000
AT_ONCE = 2**24  # numbers of a matrix that are dequantised at a time
NOT_WEIGHTS = ("F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K", "Q1_0")  # found in no model's weights, or not read
TYPES = tuple(kind.name for kind in GGMLQuantizationType if kind.name not in NOT_WEIGHTS)


@dataclass(frozen=True)
class TensorPiece:
    """Some rows of a tensor."""

    suffix: str  # of its name
    place: Place  # in the tensor
    shape: tuple[int, ...]
    first_row: int  # of the tensor's rows, counted over all its matrices


def pieces(shape: tuple[int, ...]) -> Iterator[TensorPiece]:
    """Yields the pieces in which a tensor is read."""
    if len(shape) == 3:
        for index in range(shape[0]):
            yield TensorPiece(f"[{index}]", (index,), shape[1:], index * shape[1])
        return
    rows = max(1, AT_ONCE // shape[-1])
    if len(shape) != 2 or shape[0] <= rows:
        yield TensorPiece("", (), shape, 0)
        return
    for start in range(0, shape[0], rows):
        end = min(start + rows, shape[0])
        yield TensorPiece(f"[{start}:{end}]", (slice(start, end),), (end - start, shape[1]), start)


class GGUFCheckpoint:
    """A GGUF file with the interface of ``safetensors.Checkpoint``; ``folder`` is the file.

    Raises:
        SafelightError: it holds too many matrices.
    """

    def __init__(self, file: GGUFHeader) -> None:
        self.folder = file.path
        self.headers: dict[str, Header] = {}
        self._pieces: dict[str, tuple[TensorInfo, TensorPiece]] = {}
        for name, tensor in file.tensors.items():
            for piece in pieces(tensor.shape):
                if len(self.headers) == MAX_PIECES:
                    raise SafelightError(f"{file.path} holds more than {MAX_PIECES:,} matrices, the most that are read")
                self.headers[name + piece.suffix] = Header(tensor.file, piece.shape, tensor.type.name)
                self._pieces[name + piece.suffix] = tensor, piece

    def read(self, name: str) -> Tensor:
        """Reads a piece, dequantised, in fp32 on the CPU.

        Raises:
            SafelightError: the file has become shorter, cannot be read, or holds a value that is not finite.
        """
        tensor, piece = self._pieces[name]
        with np.errstate(all="ignore"):  # infinite or NaN scales are checked below
            values = dequantize(self._blocks(name), tensor.type)
        if not np.isfinite(values).all():
            raise _not_finite(tensor, name)
        return torch.from_numpy(np.require(values, requirements="W").reshape(piece.shape))

    def read_packed(self, name: str, into: Packed) -> None:
        """Reads a piece of a type of ``KEPT``, a matrix, as it is, into room on the CPU. Raises as ``read``."""
        tensor, piece = self._pieces[name]
        start = tensor.start + piece.first_row * tensor.row_bytes
        try:
            with suppress(OSError), open_regular(tensor.file) as file:  # what cannot be read is said below
                if read_in_c(file, start, tensor.type, into, torch.get_num_threads()):
                    return
            found = packed_of(self._blocks(name), tensor.type)
            into.codes.copy_(found.codes)
            into.scales.copy_(found.scales)
        except ValueError:
            raise _not_finite(tensor, name) from None

    def _blocks(self, name: str) -> NDArray[np.uint8]:
        """Reads the bytes of a piece: (rows, bytes of a row)."""
        tensor, piece = self._pieces[name]
        rows = prod(piece.shape[:-1])
        size = rows * tensor.row_bytes
        try:
            with open_regular(tensor.file) as file:
                file.seek(tensor.start + piece.first_row * tensor.row_bytes)
                data = read_up_to(file, size)
        except OSError as error:
            raise SafelightError(f"{tensor.file} cannot be read: {error.strerror or error}") from error
        if len(data) < size:
            raise SafelightError(f"{tensor.file} is truncated: tensor {name} is not whole. Download it again")
        return np.frombuffer(data, np.uint8).reshape(rows, tensor.row_bytes)


def _not_finite(tensor: TensorInfo, name: str) -> SafelightError:
    return SafelightError(f"{tensor.file}: tensor {name} holds values that are not finite. Download it again")


@dataclass(frozen=True)
class Rewritten:
    """Changes that a converter made to a model's tensors.

    heads: the number of heads, by the last part of a projection's path. Rows from the first and the second half of each
    head alternate. norms_plus_one: True if one was added to the weights of norms.
    """

    heads: Mapping[str, int] = field(default_factory=dict)
    norms_plus_one: bool = False

    def heads_of(self, path: str) -> int:
        """Returns the heads of a parameter whose rows were reordered; 0: they were not."""
        *_, layer, _ = ("", *path.split("."))
        return self.heads.get(layer, 0)

    def undone(self, path: str, piece: TensorPiece, tensor: Tensor) -> Tensor:
        """Returns a piece without the changes, except for the order of its rows if it is only a part of a tensor."""
        if self.norms_plus_one and "norm" in path:
            tensor = tensor - 1
        return tensor if (order := self.order(path, piece)) is None else tensor[order]

    def order(self, path: str, piece: TensorPiece) -> Tensor | None:
        """Returns the order (R,) of a whole tensor's rows without the changes; None if it is the file's."""
        heads = self.heads_of(path)
        return own_rows(piece, piece.shape[0], heads).argsort() if heads and not piece.place else None


def own_rows(piece: TensorPiece, count: int, heads: int) -> Tensor:
    """Returns the rows (n,) of a tensor that a piece holds, if the halves of each of its ``heads`` alternate."""
    size = count // heads
    row = torch.arange(piece.first_row, piece.first_row + piece.shape[0])
    place = row % size
    return row - place + place % 2 * (size // 2) + place // 2


def in_pieces(state: State, names: Names, checkpoint: GGUFCheckpoint, rewritten: Rewritten) -> Layout:
    """Returns the layout of a GGUF file, with names from ``names``. Weights of four bits may stay as they are.

    Raises:
        SafelightError: a matrix that is read in pieces is to be packed as one.
    """

    def expected(path: str, name: str, shape: tuple[int, ...], piece: TensorPiece, half: int | None) -> Expected:
        place, heads = piece.place, rewritten.heads_of(path)
        if half is not None:
            place = (*place, slice(half * shape[1], (half + 1) * shape[1]))
        packed = state.packed.get(path)
        if len(shape) == 2 and place and packed is not None and packed.scheme.has_matrix_scales:
            raise SafelightError(f"{path} is too large to be packed as {packed.scheme} from a GGUF file; use int4")
        if place and heads:
            place = (own_rows(piece, shape[0], heads),)

        def put(tensor: Tensor) -> None:
            state.put(path, rewritten.undone(path, piece, tensor), place)

        def take(name: str) -> None:
            order, weight = rewritten.order(path, piece), state.packed[path]
            is_there = order is None and len(weight.shape) == 2 and state.device.type == "cpu"
            is_there &= not place or isinstance(place[0], slice)
            into = state.room(path, place) if is_there else empty(weight.scheme, piece.shape)
            checkpoint.read_packed(name, into)
            if not is_there:
                state.put_packed(path, into if order is None else into.part(order), place)

        header = checkpoint.headers.get(name + piece.suffix)
        kind = None if header is None else GGMLQuantizationType[header.dtype]
        stays = packed is not None and kind in KEPT and KEPT[kind].scheme == packed.scheme
        return Expected(piece.shape, TYPES, path, put, take if stays else None)

    return {
        name + piece.suffix: expected(path, name, own, piece, half)
        for path, shape in state.shapes.items()
        for name, own, half in _stacks(names.released(path), shape, checkpoint)
        for piece in pieces(own)
    }


def _stacks(
    name: str, shape: tuple[int, ...], checkpoint: GGUFCheckpoint
) -> Iterator[tuple[str, tuple[int, ...], int | None]]:
    """Yields the tensors that hold a weight: name, shape, and the half of the rows; None: all of them.

    Some architectures store the experts' gate and up rows in two stacks.
    """
    if "gate_up" not in name or f"{name}[0]" in checkpoint.headers:
        yield name, shape, None
        return
    experts, rows, inputs = shape
    for half, part in enumerate(("gate", "up")):
        yield name.replace("gate_up", part), (experts, rows // 2, inputs), half
