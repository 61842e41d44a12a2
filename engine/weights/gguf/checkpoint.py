"""The tensors of a GGUF file, dequantised piece by piece, and their layout.

A stack of experts is read matrix by matrix, and a large table by rows, so that no more than a piece is in memory in
fp32. Each piece has its own name: ``blk.0.ffn_down_exps.weight[7]``, ``token_embd.weight[0:5957]``.

Types whose codes a scheme of ours has, too, are kept: ``quant.UINT4``, ``INT8_G32`` and ``INT8_G16``. Q4_0, Q4_1, Q5_0
and Q8_0 are taken as they are. Scales of Q4_K and Q6_K, products of a small whole number and an fp16 one, are rounded
to fp16. The library in C reads a file's rows at the speed of memory; numpy serves without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import SafelightError
from engine.files import open_regular, read_up_to
from engine.kernels.native import matrices
from engine.quant import INT8_G16, INT8_G32, UINT4, Packed, Scheme, empty, join_nibbles
from engine.quant.integers import words_of
from engine.weights.gguf.header import GGUFHeader, TensorInfo
from engine.weights.layout import Expected, Layout, Names, Place, State
from engine.weights.safetensors import Header

Blocks = NDArray[np.uint8]
Parts = tuple[NDArray[np.generic], NDArray[np.float32], NDArray[np.float32] | None]
"""Codes (blocks, inputs), a byte each; scales (blocks, groups), and minima, or None."""


class KeptType(NamedTuple):
    """A type's scheme, and the function that splits its blocks."""

    scheme: Scheme
    parts: Callable[[Blocks], Parts]


def read_in_c(file: BinaryIO, start: int, kind: Kind, into: Packed, threads: int) -> bool:
    """Reads rows of a type of ``KEPT`` from a byte of a file on, as ``packed_of``; False without the library.

    Args:
        into: ``quant.empty`` room for them, or rows of it.

    Raises:
        OSError: the file ends before them, or cannot be read.
        ValueError: a scale is not finite.
        SafelightError: memory is short.
    """
    numbers, size = GGML_QUANT_SIZES[kind]
    return matrices.read(file.fileno(), start, int(kind), into.shape[1] // numbers * size, into, threads)


def packed_of(data: Blocks, kind: Kind) -> Packed:
    """Returns the rows of a file (R, bytes) in a type of ``KEPT`` as a packed (R, in).

    Raises:
        ValueError: a scale is not finite.
    """
    scheme, parts = KEPT[kind]
    with np.errstate(all="ignore"):
        codes, scales, minima = parts(data.reshape(-1, GGML_QUANT_SIZES[kind][1]))
        halves = [_half(part, len(data)) for part in (scales, minima) if part is not None]
    if not all(bool(part.isfinite().all()) for part in halves):
        raise ValueError("a scale is not finite")
    own = torch.from_numpy(np.ascontiguousarray(codes)).view(len(data), -1)
    if scheme == UINT4:
        return Packed(join_nibbles(own), words_of(*halves).T.contiguous(), scheme)
    return Packed(own, halves[0].T, scheme)


def _half(part: NDArray[np.float32], rows: int) -> Tensor:
    return torch.from_numpy(part.astype(np.float16).reshape(rows, -1))


def _q4_0(blocks: Blocks) -> Parts:
    scales = _fp16(blocks[:, :2])
    return _nibbles(blocks[:, 2:]), scales, -8 * scales


def _q4_1(blocks: Blocks) -> Parts:
    return _nibbles(blocks[:, 4:]), _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])


def _q4_k(blocks: Blocks) -> Parts:
    """Reads blocks of 256 inputs: two fp16 units, 8 scales and minima of 6 bits, and codes of pairs of 32 inputs."""
    unit, least = _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])
    first, second, third = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    pairs = blocks[:, 16:].reshape(-1, 4, 32)
    return np.stack([pairs & 15, pairs >> 4], axis=2), unit * scales, -least * minima


def _q5_0(blocks: Blocks) -> Parts:
    """Reads blocks of 32 inputs: an fp16 scale, the highest bits of all codes, and their low halves."""
    high = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    return (_nibbles(blocks[:, 6:]) | high << 4).view(np.int8) - np.int8(16), _fp16(blocks[:, :2]), None


def _q6_k(blocks: Blocks) -> Parts:
    """Reads blocks of 256 inputs: low halves, pairs of high bits, 16 scales of 8 bits, and their fp16 unit."""
    low, high = blocks[:, :128].reshape(-1, 2, 1, 2, 32), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    fours = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    pairs = high >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    codes = (fours | pairs << 4).view(np.int8) - np.int8(32)
    return codes, _fp16(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8), None


def _q8_0(blocks: Blocks) -> Parts:
    return blocks[:, 2:].view(np.int8), _fp16(blocks[:, :2]), None


def _nibbles(blocks: Blocks) -> Blocks:
    return np.concatenate([blocks & 15, blocks >> 4], axis=1)


def _fp16(blocks: Blocks) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view(np.float16).astype(np.float32)


KEPT = {
    Kind.Q4_0: KeptType(UINT4, _q4_0),
    Kind.Q4_1: KeptType(UINT4, _q4_1),
    Kind.Q4_K: KeptType(UINT4, _q4_k),
    Kind.Q5_0: KeptType(INT8_G32, _q5_0),
    Kind.Q8_0: KeptType(INT8_G32, _q8_0),
    Kind.Q6_K: KeptType(INT8_G16, _q6_k),
}


MAX_PIECES = 2**17  # of a file; DiffusionGemma's has 8 000
AT_ONCE = 2**24  # numbers of a matrix that are dequantised at a time
NOT_WEIGHTS = ("F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K", "Q1_0")  # found in no model's weights, or not read
TYPES = tuple(kind.name for kind in Kind if kind.name not in NOT_WEIGHTS)


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
            packed = packed_of(self._blocks(name), tensor.type)
            into.codes.copy_(packed.codes)
            into.scales.copy_(packed.scales)
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
        kind = None if header is None else Kind[header.dtype]
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
