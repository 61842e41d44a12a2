"""Builds the bundle: a folder with the program that starts where no Python is. One command, see README.md.

What goes in is ``contents``' and ``safelight.spec``'s to say; this runs PyInstaller, finishes what it made, proves
that every library finds what it is linked against, and reports the size.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distributions, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "frozen"))

import bundle_fixes
import contents
import launcher
import stand_ins

from engine.catalog import TALK
from engine.kernels import native

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ROOM = 9e9  # bytes: the bundle, and as much for a moment while libraries are stripped and archived
LINUX = sys.platform.startswith("linux")
# The NVIDIA driver's, and those of a Wayland desktop, without which Qt takes X11.
FROM_THE_SYSTEM = re.compile(r"libcuda\.so\.1|libwayland-\w+\.so\.\d+")
SIZES = ("torch", "nvidia", "triton", "PySide6", "assets")


class BuildError(Exception):
    """What stops a build, in one line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the bundle becomes DIR/safelight")
    parser.add_argument("--cpu", action="store_true", help="leave out CUDA and the kernels: small, and for no GPU")
    parser.add_argument("--archive", action="store_true", help="also pack it into DIR/safelight-VERSION-….tar.xz")
    args = parser.parse_args()
    try:
        bundle = build(args.out.resolve(), cuda=not args.cpu)
        report(bundle)
        if args.archive:
            archive(bundle, "cpu" if args.cpu else "cuda")
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"build: {error.cmd[0]} failed with exit status {error.returncode}", file=sys.stderr)
        return 1
    return 0


def build(out: Path, *, cuda: bool) -> Path:
    """Make ``out/safelight`` anew and return it.

    Raises:
        BuildError: no room, no PyInstaller, no Safelight Talk, or a library that would not load.
        subprocess.CalledProcessError: a tool failed, having said why.
    """
    out.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(out).free < ROOM:
        raise BuildError(f"{out} has less than {ROOM / 1e9:.0f} GB free; give another folder with --out")
    if importlib.util.find_spec("PyInstaller") is None:
        raise BuildError("PyInstaller is not installed; run: uv run --group bundle python packaging/build.py")
    if not TALK.is_here:
        raise BuildError("the weights of Safelight Talk are not installed; run: uv sync --group talk --group bundle")
    with tempfile.TemporaryDirectory(dir=out, prefix=".work-") as work:
        command = [sys.executable, "-m", "PyInstaller", str(HERE / "safelight.spec"), "--noconfirm"]
        command += ["--distpath", str(out), "--workpath", work, "--log-level", "WARN"]
        subprocess.run(command, check=True, cwd=work, env=os.environ | {"SAFELIGHT_CUDA": str(int(cuda))})
    bundle = out / "safelight"
    if LINUX:
        finish_linux(bundle, cuda)
    collect_licences(bundle / "licenses")
    return bundle


def inside(bundle: Path) -> Path:
    """The folder with everything but the program itself."""
    return bundle / "_internal"


def finish_linux(bundle: Path, cuda: bool) -> None:
    """Symbols, kernels, launcher or stand-ins, the desktop's files; then the proof that all of it loads."""
    root = inside(bundle)
    for library in (path for pattern in contents.STRIPPED for path in root.glob(pattern)):
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    if cuda and (root / "triton").is_dir():
        launcher.build(package("triton") / "backends" / "nvidia", root / "triton/backends/nvidia/cuda_utils.so")
    if compiler := native.compiler():
        for instructions in native.INSTRUCTIONS:
            place = root / native.bundled(instructions).relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            native.build(compiler, instructions, place)
    if not cuda:
        (root / bundle_fixes.MARK).write_text("CUDA's libraries here are empty stand-ins.\n")
        users = list((root / "torch" / "lib").glob("*.so*"))
        for library in libraries(root / "nvidia"):
            if stand_ins.is_stood_in_for(library):
                stand_ins.replace(library, users)
    share = bundle / "share"
    shutil.copytree(ROOT / "assets" / "icons" / "hicolor", share / "icons" / "hicolor", dirs_exist_ok=True)
    for source, place in (
        (HERE / "linux" / "safelight.desktop", share / "applications"),
        (HERE / "linux" / "app.safelight.safelight.metainfo.xml", share / "metainfo"),
        (HERE / "linux" / "install.sh", bundle),
        (ROOT / "assets" / "icons" / "safelight.svg", share / "icons" / "hicolor" / "scalable" / "apps"),
    ):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    if lost := not_found(root):
        raise BuildError(f"a library would not load: {'; '.join(lost)}")


def package(name: str) -> Path:
    """Where an installed package lies."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BuildError(f"{name} is not installed")
    return Path(spec.origin).parent


def libraries(folder: Path) -> Iterator[Path]:
    """Shared libraries, links left out."""
    return (path for path in sorted(folder.rglob("*.so*")) if path.is_file() and not path.is_symlink())


def not_found(root: Path) -> list[str]:
    """``library needs other`` for whatever is linked against and lies neither in the bundle nor in the system."""
    lost = []
    environment = os.environ | {"LD_LIBRARY_PATH": str(root)}
    for path in libraries(root):
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False, env=environment)
        names = set(re.findall(r"^\s*(\S+) => not found", listed.stdout, re.MULTILINE))
        lost += [f"{path.relative_to(root)} needs {name}" for name in names if not FROM_THE_SYSTEM.fullmatch(name)]
    return lost


def oldest_glibc(root: Path) -> str:
    """The newest version of the C library that anything in the bundle asks for."""
    found = {(0, 0)}
    for path in libraries(root):
        listed = subprocess.run(["objdump", "-p", str(path)], capture_output=True, text=True, check=False).stdout
        found |= {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", listed)}
    return ".".join(map(str, max(found)))


def collect_licences(folder: Path) -> None:
    """The licence files of the installed packages that may be in the bundle, a folder a package."""
    development = {name.lower() for name in contents.MODULES_OUT}
    for installed in distributions():
        name = installed.name.lower()
        if name in development:
            continue
        for file in installed.files or []:
            if re.search(r"licen[cs]e|copying|notice|eula", file.name, re.IGNORECASE) and ".dist-info" in str(file):
                source = Path(str(installed.locate_file(file)))
                if source.is_file() and source.suffix not in (".py", ".pyc"):
                    target = folder / name / Path(*file.parts[1:])  # torch brings those of a hundred others
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, target)


def size(folder: Path) -> int:
    """Bytes of all files, links not followed."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def report(bundle: Path) -> None:
    """The size, part by part, on standard output."""
    root, total = inside(bundle), size(bundle)
    parts = {name: size(root / name) for name in SIZES if (root / name).is_dir()}
    parts["the rest"] = total - sum(parts.values())
    for name, count in sorted(parts.items(), key=lambda part: -part[1]):
        print(f"{name:12} {count / 1e6:8.1f} MB")
    print(f"{'in all':12} {total / 1e6:8.1f} MB   {bundle}")
    if LINUX:
        print(f"runs with glibc {oldest_glibc(root)} or newer")


def archive(bundle: Path, variant: str) -> Path:
    """Pack the bundle; several times smaller, and slow to make."""
    target = bundle.parent / f"safelight-{version('safelight')}-{sys.platform}-{variant}.tar.xz"
    subprocess.run(["tar", "-C", str(bundle.parent), "-cf", str(target), "-I", "xz -T0 -2", bundle.name], check=True)
    print(f"{'archive':12} {target.stat().st_size / 1e6:8.1f} MB   {target}")
    return target


if __name__ == "__main__":
    sys.exit(main())
