"""Compiles Triton's kernel launcher when a bundle is built, so that its user needs no C compiler. Linux only.

The launcher is linked against the NVIDIA driver, which a machine that builds need not have: an empty library of the
driver's name stands in for it while linking and is not shipped.
"""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from pathlib import Path

DRIVER = "libcuda.so.1"


def build(backend: Path, out: Path, compiler: str = "cc") -> Path:
    """Compile ``driver.c`` to ``out``.

    Args:
        backend: the folder ``triton/backends/nvidia`` of the installed Triton.
        out: the file to write.

    Raises:
        FileNotFoundError: there is no such compiler.
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty.c")
        empty.write_text("")
        driver = Path(folder, DRIVER)
        run(compiler, "-shared", "-fPIC", f"-Wl,-soname,{DRIVER}", empty, "-o", driver)
        includes = (f"-I{backend / 'include'}", f"-I{sysconfig.get_paths()['include']}")
        options = ("-O3", "-shared", "-fPIC", "-Wno-psabi", "-Wl,--no-as-needed")
        run(compiler, *options, *includes, backend / "driver.c", f"-L{folder}", f"-l:{DRIVER}", "-o", out)
    return out


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True)
