"""The header of a GGUF file, read within bounds: its values, and the places of its tensors. Reads no tensor.

A model may be split into several files: the first one has the values, and each has tensors.

The ``gguf`` package's own reader trusts the counts, lengths and offsets of a file, and makes an array of each value of
a list. Therefore the header is read here; the package's tables of types and its arithmetic are used.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from engine.errors import SafelightError, quoted
from engine.files import open_regular, read_up_to
from engine.model_files import gguf_parts

HEADER_BYTES = 2**26  # Gemma's takes 21 MB: a vocabulary of 2^18 tokens and twice as many merges
MAX_ITEMS = 2**21  # in all lists; Gemma's has 1.3 million
VERSIONS = (2, 3)

Value: TypeAlias = bool | int | float | str | list[int] | list[float] | list[bool] | list[str]

_SCALARS = {  # layouts, by the number of the type
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_FLOAT, _STRING, _LIST = 6, 8, 9
_LENGTH = struct.Struct("<Q").unpack_from


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in the file, in rows of whole blocks."""

    shape: tuple[int, ...]  # outermost dimension first, as torch has it
    type: GGMLQuantizationType
    file: Path
    start: int  # byte of the file

    @property
    def row_bytes(self) -> int:
        numbers, size = GGML_QUANT_SIZES[self.type]
        return self.shape[-1] // numbers * size

    @property
    def bytes(self) -> int:
        return prod(self.shape[:-1]) * self.row_bytes


@dataclass(frozen=True)
class GGUFHeader:
    """The header of a file, including its other parts if the model is split."""

    path: Path
    values: dict[str, Value]
    tensors: dict[str, TensorInfo]

    @staticmethod
    def read(path: Path) -> GGUFHeader:
        """Reads a file's header, and those of its parts.

        Raises:
            SafelightError: it or another part is missing, no GGUF file, damaged, truncated or out of bounds.
        """
        header = _read(path)
        count = header.values.get("split.count", 1)
        if not isinstance(count, int) or count <= 1:
            return header
        parts = gguf_parts(path)
        if len(parts) != count:
            raise SafelightError(
                f"{path} is one of {count} parts and not named like one (NAME-00001-of-{count:05}.gguf). Give the "
                "parts their names, or join them to one file (llama-gguf-split --merge)"
            )
        values, tensors = header.values, dict[str, TensorInfo]()
        for number, other in enumerate(parts):
            if not other.exists():
                raise SafelightError(f"{other} is missing, part {number + 1} of {count}. Download it too")
            part = _read(other)
            if (part.values.get("split.no"), part.values.get("split.count")) != (number, count):
                raise SafelightError(f"{other} is not part {number + 1} of {count}. Download it again")
            values = values if number else part.values
            tensors |= part.tensors
        return GGUFHeader(path, values, tensors)


def _read(path: Path) -> GGUFHeader:
    """Reads the header of one file."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = read_up_to(file, HEADER_BYTES)
    except FileNotFoundError:
        raise SafelightError(f"there is no file {path}") from None
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return _parsed(path, _Cursor(data, size), size)
    except _HeaderError as error:
        raise SafelightError(f"{path} {error}") from None


class _HeaderError(Exception):
    """A fault of the header, as a phrase that follows the file's name."""


class _Cursor:
    """Reads values from the beginning of a file, one after the other."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size, self.at = data, size, 0
        self.items = MAX_ITEMS

    def skip(self, count: int) -> int:
        """Returns the place of the next ``count`` bytes, and skips them."""
        start = self.at
        if count > len(self.data) - start:
            is_long = len(self.data) < self.size and count <= self.size - start
            raise _HeaderError(
                f"has a header of more than {HEADER_BYTES:,} bytes, the most that is read"
                if is_long
                else "is truncated: it ends within its header. Download it again"
            )
        self.at = start + count
        return start

    def number(self, layout: str) -> int | float | bool:
        start = self.skip(struct.calcsize(layout))
        return struct.unpack_from(layout, self.data, start)[0]

    def count(self, layout: str = "<Q") -> int:
        return int(self.number(layout))

    def text(self) -> str:
        start = self.skip(self.count())
        return self.data[start : self.at].decode("utf-8", "replace")

    def texts(self, count: int) -> list[str]:
        """Reads texts in one loop: a vocabulary has hundreds of thousands."""
        texts, data = list[str](), self.data
        at, last = self.at, len(data) - 8
        for _ in range(count):
            if at > last:
                break
            (length,) = _LENGTH(data, at)
            end = at + 8 + length
            if end > len(data):
                break
            texts.append(data[at + 8 : end].decode("utf-8", "replace"))
            at = end
        self.at = at
        return texts + [self.text() for _ in range(count - len(texts))]  # says what is wrong

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            return self.list(self.count("<I"), self.count())
        if kind not in _SCALARS:
            raise _HeaderError(f"is damaged: it has a value of the unknown type {kind}. Download it again")
        number = self.number(_SCALARS[kind])
        return float(str(np.float32(number))) if kind == _FLOAT else number  # 0.1, not 0.10000000149

    def list(self, kind: int, count: int) -> Value:
        self.items -= count
        if self.items < 0:
            raise _HeaderError(f"has lists of more than {MAX_ITEMS:,} items, the most that are read")
        if kind == _STRING:
            return self.texts(count)
        if kind not in _SCALARS:
            raise _HeaderError(f"has a list of values of the type {kind}, which is not read")
        layout = np.dtype(_SCALARS[kind])
        start = self.skip(count * layout.itemsize)
        return np.frombuffer(self.data, layout, count, start).tolist()


def _parsed(path: Path, cursor: _Cursor, size: int) -> GGUFHeader:
    if cursor.data[:4] != b"GGUF":
        raise _HeaderError("is not a GGUF file. Choose another one")
    cursor.skip(4)
    version = cursor.count("<I")
    if version not in VERSIONS:
        why = "is written for big-endian machines" if version & 0xFFFF == 0 else f"is of GGUF version {version}"
        raise _HeaderError(f"{why}; versions {VERSIONS[0]} and {VERSIONS[1]} of the usual byte order are read")
    counts = cursor.count(), cursor.count()
    values: dict[str, Value] = {}
    for _ in range(counts[1]):
        key = cursor.text()
        values[key] = cursor.value(cursor.count("<I"))
    tensors: dict[str, TensorInfo] = {}
    for _ in range(counts[0]):
        name = cursor.text()
        tensors[name] = _tensor(name, path, cursor)
    return GGUFHeader(path, values, dict(_placed(tensors, cursor, values, size)))


def _tensor(name: str, file: Path, cursor: _Cursor) -> TensorInfo:
    """Reads a tensor's entry; its ``start`` is counted from the beginning of the tensors."""
    shape = tuple(cursor.count() for _ in range(cursor.count("<I")))[::-1]
    number, start = cursor.count("<I"), cursor.count()
    if number not in tuple(GGMLQuantizationType):
        raise _HeaderError(f"has tensor {quoted(name)} in the unknown type {number}; use a file in Q8_0 or Q4_K_M")
    kind = GGMLQuantizationType(number)
    numbers = GGML_QUANT_SIZES[kind][0]
    if not shape or not all(shape) or shape[-1] % numbers:
        raise _HeaderError(
            f"is damaged: tensor {quoted(name)} of shape {shape} does not divide into blocks of {numbers} ({kind.name})"
        )
    return TensorInfo(shape, kind, file, start)


def _placed(
    tensors: dict[str, TensorInfo], cursor: _Cursor, values: dict[str, Value], size: int
) -> Iterator[tuple[str, TensorInfo]]:
    """Yields the tensors with their start bytes in the file; all lie within it."""
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _HeaderError(f"is damaged: its tensors are aligned to {quoted(alignment)} bytes. Download it again")
    begin = -(-cursor.at // alignment) * alignment
    for name, tensor in tensors.items():
        placed = replace(tensor, start=begin + tensor.start)
        if placed.start + placed.bytes > size:
            raise _HeaderError(
                f"is truncated: tensor {quoted(name)} ends at byte {placed.start + placed.bytes:,} of {size:,}. "
                "Download it again"
            )
        yield name, placed
