"""Reads safetensors files, headers at once and tensors one at a time, and writes them whole. Never opens a pickle."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import SafelightError
from engine.files import is_bare_name, read_json, replacing

FLOATING = ("F32", "BF16", "F16")
MAPPED = 2**26  # bytes read of a file before it is mapped anew, so that what was copied does not stay in memory


def shards(folder: Path) -> list[Path]:
    """Returns the checkpoint's safetensors files.

    Raises:
        SafelightError: there are none, or the index names something other than files in the folder.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map or not all(map(is_bare_name, weight_map.values())):
            raise SafelightError(f"{index} has no weight_map of files in its folder; download the model again")
        files = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = next((path.name for suffix in ("*.bin", "*.pt", "*.pth") for path in folder.glob(suffix)), None)
        hint = f"; {other} is a pickle, which is never opened" if other else ""
        raise SafelightError(f"{folder} has no .safetensors weights{hint}")
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
        SafelightError: a file is missing, damaged or truncated, or a tensor is doubled.
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
            try:
                self._file, self._opened, self._read = file, safe_open(file, framework="pt"), 0
            except FileNotFoundError:
                raise SafelightError(f"{file} is missing; download the model again") from None
            except (SafetensorError, OSError) as error:
                raise _damaged(file, error) from error
        return self._opened


def _damaged(file: Path, error: Exception) -> SafelightError:
    return SafelightError(f"{file} is damaged or truncated ({error}); download it again")


def save_whole(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors that are on the CPU and contiguous.

    Raises:
        SafelightError: the disk is full, or the folder cannot be written to.
    """
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:  # only its text has the system's error
            is_full = "No space left" in str(error) or "os error 28" in str(error)
            raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error)) from error
        temporary.chmod(0o644)  # the library writes for the owner only
