"""The library in C: where it is built, loaded and refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.errors import SafelightError
from engine.kernels import native


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    return tmp_path / "safelight" / "kernels"


BUILDS = 'while [ "$1" != -o ]; do shift; done; echo it > "$2"'


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a compiler that does as a script says, and the only one on the path."""

    def make(script: str) -> None:
        place = tmp_path / "bin" / "cc"
        place.parent.mkdir()
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
        monkeypatch.setattr(native.shutil, "which", lambda name: str(place) if name == "cc" else None)

    return make


@pytest.fixture
def builds(cache: Path, compiler: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a library that is built, and opened as if it were one."""
    compiler(f"echo built >> {cache.parents[1]}/log; {BUILDS}")
    monkeypatch.setattr(native.ctypes, "CDLL", lambda _: None)
    return cache


needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="nothing is built on Windows")


@needs_sh
def test_it_is_built_once_for_its_user_alone(builds: Path, tmp_path: Path) -> None:
    place = native._built("avx2")
    assert place is not None
    assert (place.parent, place.read_bytes()) == (builds, b"it\n")
    assert native._built("avx2") == place
    assert (tmp_path / "log").read_text() == "built\n"
    assert builds.stat().st_mode & 0o077 == 0
    place.chmod(0o666)
    assert native._built("avx2") is None  # another user may have written it
    place.chmod(0o600)
    builds.chmod(0o777)
    assert native._built("avx2") is None


@needs_sh
@pytest.mark.parametrize("script", ["exit 1", "exit 0", BUILDS])
def test_without_a_library_torch_s_kernel_serves(script: str, cache: Path, compiler: Callable[[str], None]) -> None:
    compiler(script)
    assert native.load.__wrapped__("avx2") is None
    assert list(cache.glob("*")) == []


@needs_sh
@pytest.mark.usefixtures("builds")
def test_only_a_file_is_loaded() -> None:
    place = native._built("avx2")
    assert place is not None
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(SafelightError, match="it is not a file"):
        native._built("avx2")


@needs_sh
def test_the_leavings_of_a_killed_build_are_removed_by_the_next(builds: Path) -> None:
    builds.mkdir(parents=True)
    old, new = builds / ".avx2-0.so.00000000.part", builds / ".avx2-0.so.11111111.part"
    for part in (old, new):
        part.write_bytes(b"part")
    os.utime(old, (0, 0))
    assert native._built("avx2") is not None
    assert (old.exists(), new.exists()) == (False, True)  # another process may still write that


@needs_sh
@pytest.mark.usefixtures("builds")
@pytest.mark.parametrize("has_units", [False, True])
def test_matrix_units_are_built_for_where_they_are(has_units: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_units)
    assert (native._built("amx") is not None) == has_units


@pytest.mark.parametrize("lacks", ["a compiler", "the processor"])
def test_without_a_compiler_or_its_processor_nothing_is_built(
    lacks: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks == "a compiler":
        monkeypatch.setattr(native.shutil, "which", lambda _: None)
    else:
        monkeypatch.setattr(native.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something is run"))
    assert native.load.__wrapped__("avx2") is None
    assert not cache.exists()


def test_the_instructions_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(native, "load", lambda name: asked.append(name))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    native.instructions.__wrapped__()
    assert asked == ["amx", "avx512", "avxvnni", "avx2"]
    for chosen, tried in (("avx2", ["avx2"]), ("none", []), ("avx1024", [])):
        monkeypatch.setenv(native.CHOICE, chosen)
        asked.clear()
        assert native.instructions.__wrapped__() == ""
        assert asked == tried
    monkeypatch.delenv(native.CHOICE)
    asked.clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")  # its layout is in blocks of 32 rows
    native.instructions.__wrapped__()
    assert asked == ["avxvnni", "avx2"]


def test_another_program_s_build_is_waited_for_while_it_is_young(tmp_path: Path) -> None:
    made = tmp_path / "avx2-0123.so"
    assert not native._is_being_built(made)
    part = tmp_path / f".{made.name}.00ff.part"
    part.touch()
    assert native._is_being_built(made)
    os.utime(part, (0, time.time() - 2 * native.USUAL_BUILD))
    assert not native._is_being_built(made)
