"""Code of the authors of published models, out of their repositories: never a dependency, and run by tests on request.

A repository is cloned once into the folder of ``packages``; ``SAFELIGHT_AUTHORS`` names a folder that holds clones, or
their files, as OWNER+NAME. Where there is none and it cannot be cloned, the test that wants it is skipped and says why.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.real.packages import FOLDER, SECONDS

LLADA, DREAM, DLLM = "ML-GSAI/LLaDA", "HKUNLP/Dream", "ZHZisZZ/dllm"
FAST_DLLM, FAST_DLLM_V2 = "NVlabs/Fast-dLLM", "mgustineli/Fast-dLLM"  # the second one is a copy that has v2
SDAR, RND1 = "JetAstra/SDAR", "RadicalNumerics/RND1"


def repository(name: str) -> Path:
    """The folder of a repository OWNER/NAME; skips the test where it cannot be had."""
    given = os.environ.get("SAFELIGHT_AUTHORS")
    folder = (Path(given) if given else FOLDER / "authors") / name.replace("/", "+")
    if folder.is_dir():
        return folder
    if given:
        pytest.skip(f"{folder} is missing")
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = ["git", "clone", "--quiet", "--depth", "1", f"https://github.com/{name}.git", str(folder)]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{name} cannot be cloned: {error}")
    return folder


def module(repo: str, path: str, name: str) -> ModuleType:
    """A file of a repository as the module ``name``, which its relative imports go by."""
    spec = importlib.util.spec_from_file_location(name, repository(repo) / path)
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def package(repo: str, path: str, name: str) -> None:
    """A folder of a repository as the package ``name``, of which only the modules that are asked for are run."""
    found = sys.modules[name] = ModuleType(name)
    found.__path__ = [str(repository(repo) / path)]
