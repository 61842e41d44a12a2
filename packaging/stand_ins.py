"""Empty stand-ins for CUDA's libraries, for a bundle that never uses a GPU. Linux only.

A torch that was built with CUDA does not load without the libraries it is linked against, 1.7 GB of them, although
nothing in them is called where no GPU is. A stand-in has the name and the functions of one, and every function
returns an error code. Only functions are stood in for: data would have to be right, so NVSHMEM stays as it is.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

ERROR = 1
NAMES = (
    "libcublas", "libcublasLt", "libcudnn", "libcufft", "libcufile", "libcusparse", "libcusparseLt", "libnccl",
    "libnvrtc",
)  # fmt: skip
SYMBOL = re.compile(r"^(?:[0-9a-f]+)?\s*([A-Za-z]) ([^@\s]+)(?:@@?(\S+))?$", re.MULTILINE)


def symbols(library: Path, which: str) -> dict[str, tuple[str, str]]:
    """Dynamic symbols, ``defined`` or ``undefined``: name -> (nm's letter, version or nothing)."""
    command = ["nm", "--dynamic", "--with-symbol-versions", f"--{which}-only", str(library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: (letter, version or "") for letter, name, version in SYMBOL.findall(listed)}


def is_stood_in_for(library: Path) -> bool:
    """Whether a library is one of those that are replaced."""
    return library.name.partition(".so")[0] in NAMES


def replace(library: Path, users: Iterable[Path], compiler: str = "cc") -> None:
    """Put a stand-in in a library's place, with the functions that ``users`` ask of it.

    Raises:
        ValueError: a user asks for data.
        subprocess.CalledProcessError: the compiler failed.
    """
    there = symbols(library, "defined")
    asked = sorted({name for user in users for name in symbols(user, "undefined")} & set(there))
    if data := [name for name in asked if there[name][0] not in "TWi"]:
        raise ValueError(f"{library.name} gives data, for which nothing can stand in: {', '.join(data)}")
    versions: dict[str, list[str]] = {}
    for name in asked:
        versions.setdefault(there[name][1], []).append(name)
    with tempfile.TemporaryDirectory() as folder:
        code, script, made = (Path(folder, name) for name in ("code.c", "versions", library.name))
        code.write_text("".join(f"int {name}(void) {{ return {ERROR}; }}\n" for name in asked))
        named = {version: names for version, names in versions.items() if version}
        script.write_text("".join(f"{version} {{ {'; '.join(names)}; }};\n" for version, names in named.items()))
        options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library.name}"]
        options += [f"-Wl,--version-script={script}"] if named else []
        subprocess.run([compiler, *options, str(code), "-o", str(made)], check=True)
        library.unlink()  # it may be a link into the environment
        library.write_bytes(made.read_bytes())
