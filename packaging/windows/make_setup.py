"""Packs what a Windows user downloads: the program as a wheel, and the installer. Runs anywhere. See README.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BESIDE = {
    "install.cmd": HERE / "install.cmd",
    "installer.py": HERE / "installer.py",
    "windows_api.py": HERE / "windows_api.py",
    "safelight.ico": ROOT / "assets" / "icons" / "safelight.ico",
    "LICENSE": ROOT / "LICENSE",
}


def pack(wheel: Path, out: Path, uv: Path | None = None) -> Path:
    """Write ``out/safelight-VERSION-windows-setup.zip``.

    Args:
        uv: ``uv.exe``, to go in as well; without it, winget installs uv on the user's machine.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = f"safelight-{wheel.name.split('-')[1]}-windows-setup"
    with zipfile.ZipFile(out / f"{folder}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in {**BESIDE, wheel.name: wheel, **({"uv.exe": uv} if uv is not None else {})}.items():
            data = path.read_bytes()
            if name.endswith(".cmd"):  # labels are not found after other line ends
                data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            archive.writestr(f"{folder}/{name}", data)
    return out / f"{folder}.zip"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--uv", type=Path, metavar="EXE", help="uv.exe for Windows, to go into the archive")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["uv", "build", "--wheel", "--quiet", "--out-dir", folder, str(ROOT)], check=False)
        if made.returncode:
            return 1
        archive = pack(next(Path(folder).glob("*.whl")), args.out, args.uv)
    print(f"{archive}  {archive.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
