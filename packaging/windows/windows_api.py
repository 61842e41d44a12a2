"""What the installer asks of Windows: programs, the registry, shortcuts. Untested: nothing of it runs elsewhere.

It decides nothing; ``installer`` does, and is tested with another ``System`` in this one's place.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

UNINSTALL = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Safelight"
RUNTIME = ("vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll")  # Visual C++'s, which torch and Triton load
BROADCAST, SETTING_CHANGE, ABORT_IF_HUNG, WAIT_MS = 0xFFFF, 0x001A, 0x0002, 1000
# Values come through the environment, so that no path is read as PowerShell's code.
SHORTCUT = """\
$ErrorActionPreference = 'Stop'
$link = (New-Object -ComObject WScript.Shell).CreateShortcut($env:LINK)
$link.TargetPath = $env:TARGET
$link.Arguments = $env:ARGUMENTS
$link.WorkingDirectory = $env:USERPROFILE
$link.IconLocation = $env:ICON
$link.Save()
"""


class Windows:
    """This machine."""

    def problem(self) -> str:
        """Why Safelight would not run here; empty if it would."""
        if (
            sys.platform != "win32"
            or sys.getwindowsversion().major < 10
            or os.environ["PROCESSOR_ARCHITECTURE"] != "AMD64"
        ):
            return "Safelight needs Windows 10 or 11 on x86-64"
        missing = [name for name in RUNTIME if not Path(os.environ["SYSTEMROOT"], "System32", name).exists()]
        if missing:
            return (
                f"{', '.join(missing)} of the Visual C++ runtime are missing. "
                "Run: winget install --id Microsoft.VCRedist.2015+.x64 --exact"
            )
        return ""

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a program in this console, so that its own progress is seen; returns its exit status."""
        return subprocess.run(list(command), env={**os.environ, **environment}, check=False).returncode

    def make_shortcut(self, link: Path, target: Path, arguments: str, icon: Path) -> bool:
        """Write a ``.lnk`` file; returns whether that worked."""
        values = {"LINK": str(link), "TARGET": str(target), "ARGUMENTS": arguments, "ICON": str(icon)}
        return self.run(["powershell", "-NoProfile", "-NonInteractive", "-Command", SHORTCUT], values) == 0

    def read_path(self) -> str:
        """The user's own PATH, without the system's; variables in it not filled in."""
        registry = _winreg()
        try:
            with registry.OpenKey(registry.HKEY_CURRENT_USER, "Environment") as key:
                return str(registry.QueryValueEx(key, "Path")[0])
        except FileNotFoundError:
            return ""

    def write_path(self, value: str) -> None:
        """Replace the user's own PATH, and tell running programs, so that new consoles have it."""
        registry = _winreg()
        with registry.CreateKey(registry.HKEY_CURRENT_USER, "Environment") as key:
            registry.SetValueEx(key, "Path", 0, registry.REG_EXPAND_SZ, value)
        send: Any = ctypes.windll.user32.SendMessageTimeoutW  # type: ignore[attr-defined, unused-ignore]
        send(BROADCAST, SETTING_CHANGE, 0, "Environment", ABORT_IF_HUNG, WAIT_MS, None)

    def register(self, values: Mapping[str, str | int]) -> None:
        """Enter the program into the list of installed apps."""
        registry = _winreg()
        with registry.CreateKey(registry.HKEY_CURRENT_USER, UNINSTALL) as key:
            for name, value in values.items():
                kind = registry.REG_DWORD if isinstance(value, int) else registry.REG_SZ
                registry.SetValueEx(key, name, 0, kind, value)

    def unregister(self) -> None:
        """Take the program out of that list, if it is there."""
        registry = _winreg()
        with contextlib.suppress(FileNotFoundError):
            registry.DeleteKey(registry.HKEY_CURRENT_USER, UNINSTALL)


def _winreg() -> Any:
    import winreg  # on Windows alone

    return winreg
