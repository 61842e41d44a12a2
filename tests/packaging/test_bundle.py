"""The bundle itself, built and started where there is neither checkout, environment nor Python. Takes minutes: slow.

SAFELIGHT_BUNDLE may name a bundle that was built before; it is copied and tested in place of a fresh one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import smoke

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bundle that is tested is Linux's"),
]

ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 3600


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bundle in a folder of its own, away from where it was built; gone afterwards."""
    folder = tmp_path_factory.mktemp("bundle")
    ready = os.environ.get("SAFELIGHT_BUNDLE")
    if ready is None:
        pytest.importorskip("PyInstaller", reason="the group 'bundle' is not installed")
        command = [sys.executable, str(ROOT / "packaging" / "build.py"), "--out", str(folder / "built")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "in all" in done.stdout, "the size is not reported"
        (folder / "built" / "safelight").rename(folder / "Safelight here")
    else:
        shutil.copytree(ready, folder / "Safelight here", symlinks=True)
    yield folder / "Safelight here"
    shutil.rmtree(folder)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A user's environment with a PATH on which there is no Python and no compiler."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "env", "awk", "sed", "ldconfig"):
        if found := shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin"):
            (tools / name).symlink_to(found)
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home), "PATH": str(tools), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}


def start(
    bundle: Path, environment: dict[str, str], *arguments: str, under: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*under, str(bundle / "safelight"), *arguments],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        check=False,
        timeout=smoke.SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_nothing_in_it_points_back(bundle: Path) -> None:
    """No link leaves the bundle, so that it can be moved and this checkout deleted."""
    root = bundle.resolve()
    outside = [path for path in bundle.rglob("*") if path.is_symlink() and not path.resolve().is_relative_to(root)]
    assert not outside
    assert not list(bundle.rglob("*.pth"))


def test_all_that_its_user_would_try_works(
    bundle: Path, bare: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every model planned, answers, decisions, a puzzle, an export, the server, the window: see ``smoke``."""
    assert shutil.which("python3", path=bare["PATH"]) is None
    program, environment = str(bundle / "safelight"), bare | {"QT_QPA_PLATFORM": "offscreen"}
    code = smoke.check(smoke.Program(program, program, tmp_path, environment))
    assert code == 0, capsys.readouterr().out


def test_kernels_are_read_and_compiled_from_source(bundle: Path, bare: dict[str, str]) -> None:
    found = json.loads(start(bundle, bare, "--check-bundle").stdout)
    assert Path(found["folder"]).is_relative_to(bundle)
    if not found["cpu_only"]:
        assert found["kernels"] >= 10
        assert found["cubin_bytes"] > 1000
        assert found["launcher"]


def test_the_window_opens_and_answers(bundle: Path, bare: dict[str, str]) -> None:
    """The real window on a real display, by X11: model loaded, prompt typed, answer printed, closed, exit status 0."""
    xvfb = shutil.which("xvfb-run")
    if xvfb is None:
        pytest.skip("xvfb-run is not installed")
    display = (xvfb, "-a", "-s", "-screen 0 1600x1200x24", "env", f"PATH={bare['PATH']}")
    environment = bare | {"PATH": "/usr/bin:/bin", "QT_QPA_PLATFORM": "xcb"}  # xvfb-run itself needs more
    done = start(bundle, environment, "--seed", "0", "--self-test", smoke.PROMPT, under=display)
    assert smoke.ANSWER in done.stdout
