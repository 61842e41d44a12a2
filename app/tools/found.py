"""The servers that other programs on this computer declare. Reads files, so not for the GUI thread. Knows no Qt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine import SafelightError
from engine.tools.declared import ToolServer, load_servers


@dataclass(frozen=True)
class FoundFile:
    """A file with declarations, as it was read.

    Args:
        program: whose file it is; empty for one that the user chose.
        problems: a sentence for each fault.
    """

    program: str
    path: Path
    servers: tuple[ToolServer, ...] = ()
    problems: tuple[str, ...] = ()


def known_files(home: Path, platform: str = sys.platform, roaming: str = "") -> tuple[tuple[str, Path], ...]:
    """Returns where other programs keep their declarations: the program and the path.

    Args:
        roaming: the folder of ``APPDATA``, on Windows.
    """
    if platform == "win32":
        settings = Path(roaming) if roaming else home / "AppData" / "Roaming"
    elif platform == "darwin":
        settings = home / "Library" / "Application Support"
    else:
        settings = home / ".config"
    return (
        ("Claude Desktop", settings / "Claude" / "claude_desktop_config.json"),
        ("Cursor", home / ".cursor" / "mcp.json"),
        ("VS Code", settings / "Code" / "User" / "mcp.json"),
        ("LM Studio", home / ".lmstudio" / "mcp.json"),
        ("Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"),
    )


def find_all(home: Path | None = None) -> tuple[FoundFile, ...]:
    """Reads the files of other programs that exist."""
    try:
        own = Path.home() if home is None else home
    except RuntimeError:  # the user has no folder
        return ()
    return read_files(known_files(own, roaming=os.environ.get("APPDATA", "")), must_exist=False)


def read_files(files: Iterable[tuple[str, Path]], *, must_exist: bool = True) -> tuple[FoundFile, ...]:
    """Reads files, each with the program it belongs to."""
    return tuple(_read(program, path) for program, path in files if must_exist or os.path.isfile(path))


def _read(program: str, path: Path) -> FoundFile:
    try:
        return FoundFile(program, path, *load_servers(path))
    except SafelightError as error:
        return FoundFile(program, path, problems=(str(error),))
