"""Reads safetensors files: their headers at once, their tensors one at a time. Never opens a pickle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.files import is_bare_name, open_regular, read_json

FLOATING = ("F32", "BF16", "F16")
MAPPED = 2**26  # bytes read of a file before it is mapped anew, so that what was copied does not stay in memory
MOST_FILES = 1_000
MOST_TENSORS = 100_000  # the published int4 checkpoint has 35 000: each expert's matrices apart
HEADER_BYTES = 16 * 2**20  # of one file; 40 000 tensors take about 7 MB
HEADER_VALUES = 6 * MOST_TENSORS  # a tensor has about six: its name, type, offsets, and one for each dimension


def shards(folder: Path) -> list[Path]:
    """Returns the checkpoint's safetensors files.

    Raises:
        SafelightError: there are none, or one that the index names is missing or not a plain file name.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise SafelightError(f"{index} has no weight_map; download the model again")
        for name in weight_map.values():
            if not is_bare_name(name):
                raise SafelightError(
                    f"{index} names {quoted(name)}, which is not a file in its folder; download the model again"
                )
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
    """A file's entry for one of its tensors."""

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
        self._read = 0  # bytes of the open file
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
        """Reads one tensor, on the CPU; its memory is the mapped file's until it is copied."""
        file = self.headers[name].file
        if self._read >= MAPPED:
            self._file = self._opened = None
        try:
            tensor: Tensor = self._open(file).get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:  # RuntimeError: numbers that begin at an odd byte
            raise _damaged(file, error) from error
        self._read += tensor.nbytes
        return tensor

    def metadata(self, file: Path) -> dict[str, str]:
        """Returns the metadata in a file's header."""
        return dict(self._open(file).metadata() or {})

    def _open(self, file: Path) -> Any:
        if file != self._file:
            _check_header(file)
            try:
                self._file, self._opened, self._read = file, safe_open(file, framework="pt"), 0
            except (SafetensorError, OSError) as error:
                raise _damaged(file, error) from error
        return self._opened


def _check_header(file: Path) -> None:
    """Checks that it is a regular file with a header of acceptable size; the library checks the content."""
    try:
        with open_regular(file) as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = opened.read(size) if size <= HEADER_BYTES else b""
    except FileNotFoundError:
        raise SafelightError(f"{file} is missing; download the model again") from None
    except OSError as error:
        raise SafelightError(f"{file} cannot be read: {error.strerror or error}") from error
    if (size > HEADER_BYTES and size <= file.stat().st_size) or header.count(b",") > HEADER_VALUES:
        raise SafelightError(f"{file} has a header that is too large; download the model again")


def _damaged(file: Path, error: Exception) -> SafelightError:
    return SafelightError(f"{file} is damaged or truncated ({error}); download it again")
