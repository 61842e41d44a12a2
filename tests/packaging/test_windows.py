"""The installer's logic, with a stand-in for Windows: what it makes, in which order, and what it leaves alone."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import installer
import make_setup
import pytest

Capture = pytest.CaptureFixture[str]
WHEEL = "safelight-0.1.0-py3-none-any.whl"


class Machine:
    """A Windows whose uv makes an environment of two files."""

    def __init__(self) -> None:
        self.path = r"C:\Tools;%USERPROFILE%\bin;"
        self.apps: dict[str, str | int] = {}
        self.commands: list[list[str]] = []
        self.fails = ""  # the command that does
        self.lacks = ""
        self.has_shell = True

    def problem(self) -> str:
        return self.lacks

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        self.commands.append(list(command))
        if self.fails in command:
            return 2
        if "tool" in command:
            for file in (
                Path(environment["UV_TOOL_DIR"]) / "safelight" / "Scripts" / "pythonw.exe",
                Path(environment["UV_TOOL_BIN_DIR"]) / "safelight.exe",
                Path(environment["UV_CACHE_DIR"]) / "archive",
            ):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"x" * 2048)
        return 0

    def make_shortcut(self, link: Path, target: Path, arguments: str, icon: Path) -> bool:
        if self.has_shell:
            link.write_text(f"{target} {arguments} {icon}")
        return self.has_shell

    def read_path(self) -> str:
        return self.path

    def write_path(self, value: str) -> None:
        self.path = value

    def register(self, values: Mapping[str, str | int]) -> None:
        self.apps = dict(values)

    def unregister(self) -> None:
        self.apps = {}


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive as it is downloaded and unpacked; the installer runs from it."""
    wheel = tmp_path / WHEEL
    wheel.write_bytes(b"PK")
    archive = make_setup.pack(wheel, tmp_path / "dist")
    assert archive.name == "safelight-0.1.0-windows-setup.zip"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "Downloads")
    folder = tmp_path / "Downloads" / archive.stem
    monkeypatch.setattr(installer, "__file__", str(folder / "installer.py"))
    monkeypatch.setattr(installer, "ROOM", 0)
    monkeypatch.setattr(installer, "LONGEST_HOME", 1000)
    return folder


def folders(tmp_path: Path) -> dict[str, str]:
    return {"LOCALAPPDATA": str(tmp_path / "Local"), "APPDATA": str(tmp_path / "Roaming")}


def started(tmp_path: Path, machine: Machine, *arguments: str) -> int:
    return installer.main(arguments, machine, folders(tmp_path))


def test_install_repair_uninstall(
    unpacked: Path, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    home, kept = tmp_path / "Local" / "Programs" / "Safelight", tmp_path / "Local" / "Safelight" / "library.sqlite"
    kept.parent.mkdir(parents=True)
    kept.touch()
    before = machine.path.rstrip(";")
    assert started(tmp_path, machine, "--uv", "uv.exe") == 0
    said = capsys.readouterr().out
    assert [line[:5] for line in said.splitlines() if line.startswith("[")] == [f"[{step}/4]" for step in (1, 2, 3, 4)]
    fetch, first, _plan = machine.commands
    assert fetch[:3] == ["uv.exe", "tool", "install"]
    assert fetch[fetch.index("--torch-backend") + 1] == "auto"
    assert fetch[-1] == str(unpacked / WHEEL)
    assert first[:3] == [str(home / "bin" / "safelight.exe"), "generate", installer.PROMPT[1]]
    assert machine.path == f"{before};{home / 'bin'}"
    assert machine.apps["UninstallString"] == f'"{home / "install.cmd"}" uninstall'
    assert machine.apps["DisplayVersion"] == "0.1.0"
    assert 4 < int(machine.apps["EstimatedSize"]) < 1000, "KiB, without uv's cache"
    link = installer.Places.of(folders(tmp_path)).link
    assert "pythonw.exe -m app" in link.read_text()
    assert str(home / "tools") in link.read_text()

    for path in unpacked.iterdir():  # the download is gone, and the installed copy repairs itself
        path.unlink()
    monkeypatch.setattr(installer, "__file__", str(home / "installer.py"))
    monkeypatch.setattr(machine, "fails", "tool")  # no network
    assert started(tmp_path, machine, "--torch-backend", "cpu") == 1
    assert len(machine.commands) == 4, "made next to what is there, which stays"
    machine.fails = ""
    assert started(tmp_path, machine, "--torch-backend", "cpu") == 0
    assert not (home / "next").exists()
    assert machine.path == f"{before};{home / 'bin'}"

    (home / "tools.going").mkdir()  # of an uninstallation that was stopped, before this installation
    assert started(tmp_path, machine, "uninstall") == 0
    assert (machine.path, machine.apps, link.exists()) == (before, {}, False)
    assert {path.name for path in home.iterdir()} == {*installer.FILES, WHEEL}, "install.cmd removes these"
    assert kept.exists()
    assert str(kept.parent) in capsys.readouterr().out
    assert started(tmp_path, machine, "uninstall") == 0, "again"


@pytest.mark.usefixtures("unpacked")
@pytest.mark.parametrize(("fails", "steps"), [("tool", 1), ("generate", 2)])
def test_a_step_that_fails_ends_it_in_one_line(
    tmp_path: Path, machine: Machine, capsys: Capture, fails: str, steps: int
) -> None:
    machine.fails = fails
    assert started(tmp_path, machine) == 1
    assert len(machine.commands) == steps
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (machine.apps, machine.path) == ({}, Machine().path)


def test_what_is_missing_is_said_before_anything_is_fetched(
    unpacked: Path, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    machine.lacks = "msvcp140.dll of the Visual C++ runtime is missing"
    assert started(tmp_path, machine) == 1
    machine.lacks = ""
    with monkeypatch.context() as full:
        full.setattr(installer, "ROOM", 10**18)
        assert started(tmp_path, machine) == 1
    with monkeypatch.context() as long:
        long.setattr(installer, "LONGEST_HOME", 10)
        assert started(tmp_path, machine) == 1
    (unpacked / "windows_api.py").unlink()  # as where install.cmd is started inside the archive
    assert started(tmp_path, machine) == 1
    assert installer.main([], machine, {}) == 1
    said = capsys.readouterr().err.splitlines()
    for words, line in zip(("msvcp140", "GB free", "too long", "unpack all", "for Windows"), said, strict=True):
        assert words in line
    assert machine.commands == []


@pytest.mark.usefixtures("unpacked")
def test_a_program_that_is_open_is_not_half_removed(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def refuse(path: Path, _target: Path) -> Path:
        raise PermissionError(13, "used by another process", str(path))

    machine.has_shell = False
    assert started(tmp_path, machine) == 0
    assert "No shortcut could be made" in capsys.readouterr().out
    before = machine.path
    with monkeypatch.context() as running:
        running.setattr(Path, "rename", refuse)
        assert started(tmp_path, machine, "uninstall") == 1
    assert "close Safelight" in capsys.readouterr().err
    assert machine.path == before
    assert (tmp_path / "Local" / "Programs" / "Safelight" / "bin" / "safelight.exe").exists()
    assert machine.apps


@pytest.mark.parametrize("path", ["", r"C:\A;C:\B", r"C:\A;;%X%\b"])
def test_path_gets_a_folder_once_and_loses_it(path: str) -> None:
    folder = Path(r"C:\Users\me\bin")
    added = installer.with_folder(path, folder)
    assert added.endswith(str(folder))
    assert installer.with_folder(added.upper(), folder).upper() == added.upper()
    assert installer.without_folder(f"{folder}\\;{path}", folder) == path.replace(";;", ";")


def test_the_batch_file_has_windows_line_ends_and_every_label(unpacked: Path) -> None:
    data = (unpacked / "install.cmd").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") > 10
    text = data.decode("ascii")  # consoles differ in all else
    assert {line.split()[-1] for line in text.splitlines() if "goto " in line} == {
        line[1:] for line in text.splitlines() if line.startswith(":")
    }
    home = installer.Places.of({"LOCALAPPDATA": "%LOCALAPPDATA%", "APPDATA": ""}).home
    assert str(home).replace("/", "\\") in text, "the folder that it may remove is the one that is installed"
