"""Installs Safelight for one Windows user, or removes it. Started by ``install.cmd``; needs the standard library alone.

uv fetches Python and the libraries into an environment of the program's own, and draws the progress of its downloads;
this adds what uv does not: a look at the machine, a first answer, the shortcut, the commands' folder in PATH, the entry
among the installed apps. Nothing here asks for an administrator. Windows itself is behind ``System``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOM = 12 * 10**9  # bytes: torch with CUDA takes 5, and as much while it is unpacked
LONGEST_HOME = 100  # characters: libraries add up to 150, and Windows ends at 260
PYTHON = "3.12"
FILES = ("install.cmd", "installer.py", "windows_api.py", "safelight.ico", "LICENSE")
OPTIONAL = ("uv.exe",)
PROMPT = ("generate", "What is 47 + 5?", "--model", "safelight-mini", "--seed", "0")


class InstallError(Exception):
    """What stops the installer, in one line that says what to do."""


class System(Protocol):
    """Windows, or a stand-in; see ``windows_api``."""

    def problem(self) -> str: ...
    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int: ...
    def make_shortcut(self, link: Path, target: Path, arguments: str, icon: Path) -> bool: ...
    def read_path(self) -> str: ...
    def write_path(self, value: str) -> None: ...
    def register(self, values: Mapping[str, str | int]) -> None: ...
    def unregister(self) -> None: ...


@dataclass(frozen=True)
class Places:
    """Where everything lies. Conversations, models and settings are elsewhere, in ``data``, and are never touched."""

    home: Path
    menu: Path
    data: Path

    @staticmethod
    def of(environment: Mapping[str, str]) -> Places:
        local, roaming = Path(environment["LOCALAPPDATA"]), Path(environment["APPDATA"])
        menu = roaming / "Microsoft" / "Windows" / "Start Menu" / "Programs"
        return Places(local / "Programs" / "Safelight", menu, local / "Safelight")

    @property
    def commands(self) -> Path:
        return self.home / "bin"

    @property
    def scripts(self) -> Path:
        return self.home / "tools" / "safelight" / "Scripts"

    @property
    def link(self) -> Path:
        return self.menu / "Safelight.lnk"

    def uv_folders(self, place: Path) -> dict[str, str]:
        """uv makes the environment in ``place``, a folder of the program's own, and links it to files of its cache."""
        folders = {
            "UV_TOOL_DIR": place / "tools",
            "UV_TOOL_BIN_DIR": place / "bin",
            "UV_CACHE_DIR": self.home / "cache",
        }
        return {name: str(folder) for name, folder in folders.items()} | {"UV_NO_CONFIG": "1"}


def install(source: Path, places: Places, system: System, uv: str, backend: str) -> None:
    """Install what lies in ``source``, over an older version if there is one.

    Args:
        uv: the program.
        backend: which torch, as ``uv --torch-backend`` takes it: "auto" is the one for this machine's card and driver.

    Raises:
        InstallError: something is missing, or a step failed. An older version stays until all of this one is fetched:
            that is made beside it first.
    """
    say(1, "looking at this machine")
    wheel = find_wheel(source)
    require_room(places, system)
    say(2, "Python and the libraries: about 3 GB with CUDA, once")
    command = [uv, "tool", "install", "--force", "--python", PYTHON, "--torch-backend", backend, str(wheel)]
    trial = places.home / "next"
    for place in (trial, places.home) if places.scripts.exists() else (places.home,):
        if system.run(command, places.uv_folders(place)):  # which removes what is there before it fetches
            raise InstallError(
                "the libraries could not be fetched; look at the lines above, then start install.cmd again"
            )
    shutil.rmtree(trial, ignore_errors=True)
    say(3, "a first answer, by the processor, and what fits this machine")
    program = str(places.commands / "safelight.exe")
    if system.run([program, *PROMPT, "--device", "cpu"], {}):
        raise InstallError("Safelight is installed and does not run; its message is above")
    system.run([program, "plan", "26b-a4b"], {})  # it may not fit, which is no fault
    say(4, "the Start menu, PATH and the list of installed apps")
    keep(source, places.home)
    system.write_path(with_folder(system.read_path(), places.commands))
    system.register(entry(places, version_of(wheel)))
    places.menu.mkdir(parents=True, exist_ok=True)
    icon = places.home / "safelight.ico"
    if not system.make_shortcut(places.link, places.scripts / "pythonw.exe", "-m app", icon):
        print(f"No shortcut could be made. The window is opened by {program}")
    print("Safelight is in the Start menu, and in a new terminal it is: safelight")


def uninstall(places: Places, system: System) -> None:
    """Remove all that ``install`` made, but for the files that are running now, which install.cmd removes.

    Raises:
        InstallError: a file is in use.
    """
    try:
        for name in ("tools", "bin", "cache", "next"):
            folder, going = places.home / name, places.home / f"{name}.going"
            if going.exists():  # of an uninstallation that was stopped
                shutil.rmtree(going)
            if folder.exists():
                folder.rename(going)  # refused as a whole while a file in it is open, so that nothing is half removed
                shutil.rmtree(going)
    except OSError as error:
        raise InstallError(f"{error.filename} is in use; close Safelight, then uninstall it again") from None
    places.link.unlink(missing_ok=True)
    system.write_path(without_folder(system.read_path(), places.commands))
    system.unregister()
    print(
        f"Safelight is removed. Conversations, models and recorded runs stay in {places.data}: delete it to lose them."
    )


def say(number: int, what: str) -> None:
    print(f"[{number}/4] {what}", flush=True)


def find_wheel(source: Path) -> Path:
    """The program in the folder that was unpacked.

    Raises:
        InstallError: the folder is not whole, as where install.cmd was started inside the archive.
    """
    wheels = sorted(source.glob("safelight-*.whl"))
    missing = [name for name in FILES if not (source / name).is_file()]
    if len(wheels) != 1 or missing:
        raise InstallError(
            f"{source} is not whole; unpack all of the archive into a new folder and start install.cmd there"
        )
    return wheels[0]


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def require_room(places: Places, system: System) -> None:
    """
    Raises:
        InstallError: the machine, the folder or the disk does not do.
    """
    if problem := system.problem():
        raise InstallError(problem)
    if len(str(places.home)) > LONGEST_HOME:
        raise InstallError(
            f"{places.home} is too long for Windows with the names below it; use an account with a short name"
        )
    there = next(folder for folder in (places.home, *places.home.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < ROOM and not places.scripts.exists():  # an update links most of what is there
        raise InstallError(
            f"{there} has {free / 1e9:.0f} GB free, and {ROOM / 1e9:.0f} are needed; free some, then again"
        )


def keep(source: Path, home: Path) -> None:
    """Copy what the uninstaller needs; nothing where the installed copy repairs itself."""
    if source.resolve() == home.resolve():
        return
    home.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, *(name for name in OPTIONAL if (source / name).exists())):
        shutil.copyfile(source / name, home / name)
    for old in home.glob("safelight-*.whl"):
        old.unlink()
    wheel = find_wheel(source)
    shutil.copyfile(wheel, home / wheel.name)  # so that install.cmd repairs it without the archive


def entry(places: Places, version: str) -> dict[str, str | int]:
    """What the list of installed apps shows; its size in KiB."""
    files = (path for path in places.home.rglob("*") if path.is_file())
    return {
        "DisplayName": "Safelight",
        "DisplayVersion": version,
        "DisplayIcon": str(places.home / "safelight.ico"),
        "Publisher": "The Safelight authors",
        "InstallLocation": str(places.home),
        "UninstallString": f'"{places.home / "install.cmd"}" uninstall',
        "EstimatedSize": sum(path.stat().st_size for path in files if "cache" not in path.parts) // 1024,
        "NoModify": 1,
        "NoRepair": 1,
    }


def with_folder(path: str, folder: Path) -> str:
    """A PATH with a folder at its end, once."""
    others = without_folder(path, folder)
    return f"{others};{folder}" if others else str(folder)


def without_folder(path: str, folder: Path) -> str:
    """A PATH without a folder, its other entries as they were."""
    return ";".join(each for each in path.split(";") if each and each.rstrip("\\/").lower() != str(folder).lower())


def main(arguments: Sequence[str], system: System, environment: Mapping[str, str]) -> int:
    """Do what was asked; exit status 0, 1, or 130 where it was stopped."""
    parser = argparse.ArgumentParser(prog="install.cmd", description="Installs Safelight for this user.")
    parser.add_argument("action", nargs="?", choices=("install", "uninstall"), default="install")
    parser.add_argument("--torch-backend", default="auto", help="auto, cpu, or a version of CUDA as cu130")
    parser.add_argument("--uv", default="uv", help="the uv program")
    args = parser.parse_args(list(arguments))
    try:
        if not {"LOCALAPPDATA", "APPDATA"} <= environment.keys():
            raise InstallError("this is the installer for Windows")
        places = Places.of(environment)
        if args.action == "install":
            install(Path(__file__).resolve().parent, places, system, args.uv, args.torch_backend)
        else:
            uninstall(places, system)
    except InstallError as error:
        print(f"Safelight: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Safelight: stopped; install.cmd goes on from what was fetched", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"Safelight: {error.filename or 'a file'} cannot be written ({error.strerror or error})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr, unused-ignore]
    from windows_api import Windows

    sys.exit(main(sys.argv[1:], Windows(), os.environ))
