"""4-bit products on x86-64 processors with activations rounded to int8, by a kernel in C: ``w4a8.c``.

A bundle has the built library next to the source. Elsewhere it is built once, in a second, if the machine has a
compiler, and kept in the user's cache. It is used only if it agrees with the codes' values; torch's kernel serves
without it. Activations have a scale for each row and group, as in llama.cpp's Q8_0, and round by half a percent of a
group's largest number at most.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.files import private_folder, replacing
from engine.quant import INT4, INT4_G64, TILE, Packed, to_blocks, unpack

SCHEMES = (INT4, INT4_G64)
SOURCE, BUNDLED = Path(__file__).with_name("w4a8.c"), "w4a8.so"  # in one folder
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=c11", "-shared", "-fPIC")
LONGEST_BUILD = 60.0  # seconds


class Rounded(NamedTuple):
    """Activations (N, in) in int8, by groups."""

    codes: Tensor  # (N, in) int8
    scales: Tensor  # (N, groups) fp32; not finite where a number of the group is not
    sums: Tensor  # (N, groups) int32, of the codes

    def take(self, rows: Tensor) -> Rounded:
        """Returns copies of the rows with ids (M,)."""
        return Rounded(*(part[rows] for part in self))

    @property
    def values(self) -> Tensor:
        """The rounded numbers, fp32 (N, in)."""
        groups = self.codes.view(*self.scales.shape, -1).float()
        return (groups * self.scales[..., None]).flatten(1)


def serves(weight: Packed) -> bool:
    """Returns True if the kernel multiplies by a packed weight as it lies in memory."""
    return weight.block > 0 and weight.scheme in SCHEMES and weight.block <= rows()


@functools.cache
def rows() -> int:
    """Returns the rows of the largest block that the kernel reads on this processor, 64 or 32; 0 without a kernel."""
    library = _library()
    found = 0 if library is None else int(library.w4a8_rows())
    return found if found and _is_right(32) and (found == 32 or _is_right(found)) else 0


def rounded(x: Tensor, group: int) -> Rounded:
    """Rounds x (N, in) in groups of that many inputs."""
    library = _library()
    assert library is not None, "there is no kernel"
    x = x.float().contiguous()
    shape = len(x), x.shape[1] // group
    made = Rounded(x.new_empty(x.shape, dtype=torch.int8), x.new_empty(shape), x.new_empty(shape, dtype=torch.int32))
    library.w4a8_round(x.data_ptr(), *(part.data_ptr() for part in made), *x.shape, group)
    return made


def multiply(x: Rounded, stack: Packed, first: int, counts: Sequence[int]) -> Tensor:
    """Multiplies rounded x (N, in) by matrices of a packed (E, out, in) in blocks -> fp32 (N, out).

    Args:
        first: index of the first matrix.
        counts: rows of x for it and for each that follows; together N.
    """
    library = _library()
    assert library is not None, "there is no kernel"
    _, rows, inputs = stack.shape
    codes, scales = stack.codes[first : first + len(counts)], stack.scales[first : first + len(counts)]
    sizes, out = torch.tensor(counts), torch.empty(len(x.codes), rows)
    tensors = (codes, scales, *x, out, sizes)
    assert all(tensor.is_contiguous() for tensor in tensors), "the kernel reads whole matrices"
    assert (len(codes), sum(counts)) == (len(counts), len(x.codes)), "each row has a matrix"
    places = (tensor.data_ptr() for tensor in tensors)
    library.w4a8_multiply(*places, len(counts), rows, inputs, stack.scheme.group_size, stack.block)
    return out


def _is_right(block: int) -> bool:
    """Returns True if the kernel agrees with the values of a weight in blocks of that many rows."""
    codes = torch.arange(block * TILE).mul(37).to(torch.uint8).view(2 * block, TILE // 2)
    scales = torch.arange(1, 4 * block + 1).view(2, -1).to(torch.bfloat16)
    tiles = Packed(codes.clone(), scales, INT4)
    to_blocks(codes, block)
    x = rounded(torch.arange(-8.0, 8.0, 1 / 32).view(8, TILE), INT4.group_size)
    out = multiply(x, Packed(codes[None], scales[None], INT4, block=block), 0, [8])
    return torch.allclose(out, x.values @ unpack(tiles).T, rtol=1e-3, atol=1.0)


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        place = _built()
        if place is None:
            return None
        library = ctypes.CDLL(str(place))
    except (OSError, RuntimeError, SafelightError, subprocess.SubprocessError):
        return None  # torch's kernel serves in its place
    whole, pointer = ctypes.c_int64, ctypes.c_void_p
    library.w4a8_rows.restype = whole
    library.w4a8_round.argtypes, library.w4a8_round.restype = [pointer] * 4 + [whole] * 3, None
    library.w4a8_multiply.argtypes, library.w4a8_multiply.restype = [pointer] * 7 + [whole] * 5, None
    return library


def _built() -> Path | None:
    """Returns the library's file, built if need be; None if this machine cannot run or build it.

    Raises:
        OSError, RuntimeError, SafelightError, SubprocessError: there is no home, the cache cannot be written, or the
            compiler fails.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    if (bundled := SOURCE.with_name(BUNDLED)).is_file():
        return bundled
    found = compiler()
    if found is None:
        return None
    made_of = "\0".join((SOURCE.read_text(encoding="utf-8"), found, *FLAGS))
    folder = private_folder(_cache())
    if not _is_own(folder):
        return None
    made = folder / f"w4a8-{hashlib.sha256(made_of.encode()).hexdigest()[:24]}.so"
    if not made.exists():
        with replacing(made, private=True) as part:
            build(found, part)
            ctypes.CDLL(str(part))  # what cannot be loaded is not kept
    return made if _is_own(made) else None


def compiler() -> str | None:
    """Returns the path of a compiler that can build the library; none is known for Windows."""
    if sys.platform == "win32":
        return None
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def build(compiler: str, to: Path) -> None:
    """Compiles the library into a file.

    Raises:
        SubprocessError: the compiler fails.
        OSError: it cannot be started.
    """
    command = [compiler, *FLAGS, "-o", str(to), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=LONGEST_BUILD, stdin=subprocess.DEVNULL)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "safelight" / "kernels"


def _is_own(place: Path) -> bool:
    """Returns True if only this user can write there: what lies there is run."""
    status = place.stat()
    return bool(status.st_uid == os.getuid() and not status.st_mode & 0o022)
