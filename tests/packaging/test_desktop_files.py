"""Icon, menu entry, AppStream file and the script that installs them."""

from __future__ import annotations

import configparser
import io
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
LINUX = ROOT / "packaging" / "linux"
ENTRY = LINUX / "safelight.desktop"
METAINFO = LINUX / "app.safelight.safelight.metainfo.xml"
ICONS = ROOT / "assets" / "icons"


def read_entry(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path, encoding="utf-8")
    return parser["Desktop Entry"]


def unquoted(value: str) -> str:
    """The first argument of an Exec value, read as the specification says: the file's escapes, then the quotes'."""
    text = re.sub(r"\\(.)", r"\1", value)
    quoted = re.fullmatch(r'"((?:[^"\\`$]|\\["`$\\])*)"', text)
    assert quoted is not None, f"{value} is not one quoted argument"
    return re.sub(r'\\(["`$\\])', r"\1", quoted[1]).replace("%%", "%")


def test_entry_and_metainfo_name_the_same_program() -> None:
    entry, root = read_entry(ENTRY), ElementTree.parse(METAINFO).getroot()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert entry["Exec"] in project["scripts"]
    assert root.findtext("launchable") == ENTRY.name
    assert METAINFO.name == f"{root.findtext('id')}.metainfo.xml"
    assert root.findtext("project_license") == project["license"]
    releases = [release.get("version") for release in root.findall("releases/release")]
    assert releases[0] == project["version"], "the newest release is not this one"
    main = (ROOT / "app" / "main.py").read_text(encoding="utf-8")
    assert f'setDesktopFileName("{ENTRY.stem}")' in main, "a Wayland desktop would not find the window's entry"


@pytest.mark.parametrize(
    "command",
    [["desktop-file-validate", ENTRY], ["appstreamcli", "validate", "--no-net", "--pedantic", METAINFO]],
    ids=["desktop-file-validate", "appstreamcli"],
)
def test_the_validators_find_nothing(command: list[str | Path]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hint" not in done.stdout


def opened(path: Path) -> Any:
    return Image.open(io.BytesIO(path.read_bytes()))


def test_icons_have_the_sizes_that_they_claim() -> None:
    found = sorted(ICONS.glob("hicolor/*/apps/safelight.png"))
    assert len(found) == 8
    for path in found:
        pixels = int(path.parts[-3].partition("x")[0])
        assert opened(path).size == (pixels, pixels)
    windows = opened(ICONS / "safelight.ico")
    assert max(windows.info["sizes"]) == (256, 256)
    assert all(windows.ico.getimage(size).size == size for size in windows.info["sizes"])
    mac = opened(ICONS / "safelight.icns")
    assert sorted(width * scale for width, _, scale in mac.info["sizes"]) == [16, 32, 64, 128, 256, 512, 1024]


@pytest.fixture(params=["bundle", 'my $HOME\'s "50%" \\ bundle `x`'])
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Makes the files that the script looks for, without the program."""
    folder = tmp_path / request.param
    for source, place in ((ENTRY, "share/applications"), (METAINFO, "share/metainfo"), (LINUX / "install.sh", "")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / place)
    shutil.copytree(ICONS / "hicolor", folder / "share" / "icons" / "hicolor")
    (folder / "safelight").write_text("#!/bin/sh\necho started\n")
    (folder / "safelight").chmod(0o755)
    return folder


def install(bundle: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [bundle / "install.sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=home,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's menu")
def test_install_and_uninstall(bundle: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    others = home / ".local" / "share" / "icons" / "hicolor" / "48x48" / "apps" / "other.png"
    others.parent.mkdir(parents=True)
    others.touch()
    for _ in range(2):  # again over itself, as after an update
        done = install(bundle, home)
        assert (done.returncode, done.stderr) == (0, "")
    entry = home / ".local" / "share" / "applications" / "safelight.desktop"
    assert unquoted(read_entry(entry)["Exec"]) == str(bundle / "safelight")
    assert (others.parent / "safelight.png").exists()
    linked = home / ".local" / "bin" / "safelight"
    assert subprocess.run([linked], capture_output=True, text=True, check=True).stdout == "started\n"

    done = install(bundle, home, "--uninstall")
    assert done.returncode == 0, done.stderr
    left = [path for path in home.rglob("*") if not path.is_dir()]
    assert left == [others]
    assert (bundle / "safelight").exists()

    linked.write_text("another program of that name")
    assert "stays as it is" in install(bundle, home).stderr
    install(bundle, home, "--uninstall")
    assert linked.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's format")
def test_an_appimage_has_what_its_tool_wants(bundle: Path, tmp_path: Path) -> None:
    """Packs with a tool that only starts the folder as the one file would: through its AppRun."""
    tool = tmp_path / "bin" / "appimagetool"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\nfor last; do :; done\n(cd "$3" && ls && ./AppRun) >"$last"\n')
    tool.chmod(0o755)
    out = tmp_path / "Safelight.AppImage"
    command = [LINUX / "appimage.sh", bundle, out]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": f"{tool.parent}:/usr/bin:/bin"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text().split() == ["AppRun", "safelight.desktop", "safelight.png", "usr", "started"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "it clears up"
    missing = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert (missing.returncode, "appimagetool is not there" in missing.stderr) == (1, True)
