"""The files that stay out of a bundle, and above all those that must not."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import contents

from engine.catalog import TALK

ROOT = Path(__file__).resolve().parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TOML["project"]
RUNTIME = {re.match(r"[\w.-]+", name)[0] for name in PROJECT["dependencies"]}  # type: ignore[index]

KERNEL_COMPILER = """
    triton/backends/nvidia/bin/ptxas triton/backends/nvidia/bin/ptxas-blackwell triton/_C/libtriton.so
    triton/backends/nvidia/lib/libdevice.10.bc triton/backends/nvidia/driver.c triton/backends/amd/compiler.py
    engine/kernels/expert_gemm.py
""".split()  # noqa: SIM905
LINKED = """
    nvidia/cu13/lib/libcublasLt.so.13 nvidia/cu13/lib/libcusparse.so.12 nvidia/nvshmem/lib/libnvshmem_host.so.3
    nvidia/cudnn/lib/libcudnn.so.9 nvidia/cudnn/lib/libcudnn_graph.so.9 torch/lib/libtorch_cuda.so
""".split()  # noqa: SIM905
PLUGINS = """
    platforms/libqxcb.so platforms/libqwayland.so platforms/libqoffscreen.so iconengines/libqsvgicon.so
    platformthemes/libqxdgdesktopportal.so imageformats/libqsvg.so imageformats/libqico.so imageformats/libqjpeg.so
"""
DESKTOP = ["libxcb-cursor.so.0", *(f"PySide6/Qt/plugins/{name}" for name in PLUGINS.split())]
UNUSED = """
    nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9 nvidia/cu13/lib/libcusolver.so.12 libcusolver.so.12
    torch/lib/libtorch_cuda_linalg.so triton/backends/nvidia/lib/cupti/libcupti_static.a
    PySide6/Qt/plugins/platformthemes/libqgtk3.so PySide6/Qt/plugins/imageformats/libqtiff.so
""".split()  # noqa: SIM905


def test_what_is_needed_goes_in_and_what_nothing_uses_stays_out() -> None:
    assert [path for path in KERNEL_COMPILER + LINKED + DESKTOP if contents.stays_out(path)] == []
    assert [path for path in UNUSED if not contents.stays_out(path)] == []


def test_without_cuda_the_kernels_stay_out_and_the_window_does_not() -> None:
    assert all(contents.stays_out(path, cuda=False) for path in KERNEL_COMPILER if path.startswith("triton"))
    assert not any(contents.stays_out(path, cuda=False) for path in DESKTOP)


def test_a_link_goes_with_what_it_points_to() -> None:
    entries = [
        ("libcusolver.so.12", "nvidia/cu13/lib/libcusolver.so.12", "SYMLINK"),
        ("short.so", "nvidia/cu13/lib/libcusolver.so.12", "SYMLINK"),
        ("libcublas.so.13", "nvidia/cu13/lib/libcublas.so.13", "SYMLINK"),
        ("nvidia/cu13/lib/libcublas.so.13", "/somewhere/libcublas.so.13", "BINARY"),
    ]
    assert contents.kept(entries) == entries[2:]


def test_the_weights_of_talk_go_in_without_the_code_of_their_package() -> None:
    """Looks for its notice, too; its licence text is collected with those of all installed packages."""
    assert TALK.package in contents.DATA_OF
    assert TALK.package not in contents.MODULES_IN
    assert not contents.stays_out(f"{TALK.package}/{TALK.file}")
    notice = ROOT / "assets" / "models" / TALK.id / "NOTICE"
    assert TALK.file in notice.read_text(encoding="utf-8")


def test_who_asks_for_its_version_by_another_name_finds_it() -> None:
    """PyInstaller sees ``version("name")`` and brings what that reads; not where the function is called otherwise."""
    asking = re.compile(r"from importlib\.metadata import version as (\w+)")
    found = {
        names[0]
        for package, names in packages_distributions().items()
        if names[0] in RUNTIME
        and (spec := find_spec(package)) is not None
        and spec.origin is not None
        and spec.origin.endswith(".py")
        and asking.search(Path(spec.origin).read_text(encoding="utf-8"))
    }
    assert found, "the pattern is out of date"
    assert found <= set(contents.METADATA_OF)
