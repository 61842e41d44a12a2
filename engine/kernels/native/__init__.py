"""The kernels in C for x86-64 processors: builds the library, and loads the one for this processor's instructions.

A bundle has the built libraries next to the sources. Elsewhere one is built once, in a few seconds, if the machine has
a compiler, and kept in the user's cache. torch's kernels serve without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

from engine.errors import SafelightError
from engine.files import private_folder, replacing

HERE = Path(__file__).parent
SOURCES, HEADERS = sorted(HERE.glob("*.c")), sorted(HERE.glob("*.h"))
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC")
LIBRARIES = ("-lm", "-lpthread")
LONGEST_BUILD = 120.0  # seconds
USUAL_BUILD = 10.0  # for which a program waits for another's build
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mf16c", *(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vbmi", "vnni")))
INSTRUCTIONS = {  # best first
    "amx": (*AVX512, "-mavx512bf16", "-mgfni", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
    "avx512": AVX512,
    "avxvnni": (*AVX2, "-mavxvnni"),
    "avx2": AVX2,
}
NARROW = ("avxvnni", "avx2")  # those of 256 bits
CHOICE = "SAFELIGHT_INSTRUCTIONS"  # environment variable: one of them, or "none"


@functools.cache
def instructions() -> str:
    """Returns the best instructions that the processor has, and that a library is there for; "" without one."""
    chosen = os.environ.get(CHOICE, "")
    allowed = [chosen] if chosen else list(INSTRUCTIONS)
    if torch.backends.cpu.get_cpu_capability() != "AVX512":  # its kernels' layout, which ours read
        allowed = [name for name in allowed if name in NARROW]
    return next((name for name in allowed if name in INSTRUCTIONS and load(name) is not None), "")


def library() -> ctypes.CDLL | None:
    """Returns the library for the best instructions; None without one."""
    return load(instructions()) if instructions() else None


@functools.cache
def load(instructions: str) -> ctypes.CDLL | None:
    """Returns the library for a set of instructions; None if the processor lacks them, or there is no library."""
    try:
        place = _built(instructions)
        if place is None:
            return None
        kernels = ctypes.CDLL(str(place))
    except (OSError, RuntimeError, SafelightError, subprocess.SubprocessError):
        return None
    whole, pointer = ctypes.c_int64, ctypes.c_void_p
    kernels.native_block.restype = whole
    kernels.native_round.argtypes, kernels.native_round.restype = [pointer] * 5 + [whole] * 3, None
    kernels.native_experts.argtypes, kernels.native_experts.restype = [pointer] * 7 + [whole] * 4, None
    kernels.native_multiply.argtypes = [pointer] * 7 + [whole] * 2
    kernels.native_decode.argtypes = [pointer, pointer, whole, whole]
    kernels.native_mixture.argtypes = [pointer]
    kernels.native_norms.argtypes = [pointer]
    kernels.native_linear.argtypes = [pointer] * 4 + [whole] * 4
    kernels.causal_pass.argtypes = [pointer]
    kernels.native_read.argtypes = [whole] * 7 + [pointer] * 2 + [whole]
    kernels.native_turn.argtypes = [pointer] * 2 + [whole] * 3
    return kernels if kernels.native_block() > 0 else None


def needed() -> ctypes.CDLL:
    """Returns the library where its use was chosen, so that it is there."""
    loaded = library()
    assert loaded is not None, "there is no kernel"
    return loaded


def check(status: int, what: str) -> None:
    """Checks what a function of the library returned.

    Raises:
        SafelightError: memory was short.
    """
    if status:
        raise SafelightError(f"memory is short for {what}. Close other programs, or choose a smaller model")


def bundled(instructions: str) -> Path:
    """Returns the place of a library in a bundle."""
    return HERE / f"{instructions}.so"


def _built(instructions: str) -> Path | None:
    """Returns the library's file, built if need be; None if this machine cannot run or build it.

    Raises:
        OSError, RuntimeError, SafelightError, SubprocessError: there is no home, the cache cannot be written, or the
            compiler fails.
    """
    if platform.machine() not in ("x86_64", "AMD64") or (instructions == "amx" and not _has_amx()):
        return None
    if bundled(instructions).is_file():
        return bundled(instructions)
    command = compiler()
    if command is None:
        return None
    texts = [file.read_text(encoding="utf-8") for file in (*HEADERS, *SOURCES)]
    made_of = "\0".join((*texts, command, *FLAGS, *INSTRUCTIONS[instructions]))
    folder = private_folder(_cache())
    if not _is_own(folder):
        return None
    made = folder / f"{instructions}-{hashlib.sha256(made_of.encode()).hexdigest()[:24]}.so"
    while not made.is_file() and _is_being_built(made):
        time.sleep(0.05)
    if not made.is_file():
        _remove_left(folder)
        with replacing(made, private=True) as part:
            build(command, instructions, part)
            ctypes.CDLL(str(part))  # what cannot be loaded is not kept
    return made if _is_own(made) else None


def _has_amx() -> bool:
    """Returns True if the processor has matrix units: most have none, and a build for them takes seconds."""
    return bool(torch.cpu._is_amx_tile_supported())


def _is_being_built(made: Path) -> bool:
    """Returns True if another program has begun to build a library, as far as can be known."""
    parts = made.parent.glob(f".{made.name[:80]}.*.part")
    with contextlib.suppress(OSError):  # it is there now, under its own name
        return any(time.time() - part.stat().st_mtime < USUAL_BUILD for part in parts)
    return False


def _remove_left(folder: Path) -> None:
    """Removes what builds that were killed have left."""
    for part in folder.glob(".*.part"):
        if time.time() - part.lstat().st_mtime > 2 * LONGEST_BUILD:
            part.unlink(missing_ok=True)


def compiler() -> str | None:
    """Returns the path of a compiler that can build the library; none is known for Windows."""
    if sys.platform == "win32":
        return None
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


def build(compiler: str, instructions: str, to: Path) -> None:
    """Compiles the library for a set of instructions into a file.

    Raises:
        SubprocessError: the compiler fails.
        OSError: it cannot be started.
    """
    command = [compiler, *FLAGS, *INSTRUCTIONS[instructions], "-o", str(to), *map(str, SOURCES), *LIBRARIES]
    subprocess.run(command, check=True, capture_output=True, timeout=LONGEST_BUILD, stdin=subprocess.DEVNULL)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "safelight" / "kernels"


def _is_own(place: Path) -> bool:
    """Returns True if only this user can write there: what lies there is run."""
    status = place.stat()
    return bool(status.st_uid == os.getuid() and not status.st_mode & 0o022)
