"""Installs clients that others wrote, uses each of them, and prints a table: ``python -m tests.clients [NAME …]``.

A client is a folder with ``requirements.txt`` (Python) or ``package.json`` (Node), and ``use.py``, ``use.mjs`` or
``use.sh``, whose first line says what is tried. The script gets the addresses ``SMALL`` and ``AGENT``, ``KEY``, the
small model's folder ``WEIGHTS``, and ``PYTHON``, which can import ``app``, from its environment, runs in an empty
folder, and fails by its exit status. Installed clients are kept in ``--cache``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.clients.servers import agent, small
from tests.engine.server.served import KEY

HERE = Path(__file__).parent
SECONDS = 300  # of one client's installation, and of its use
HEAD = "| client | version | tried | result | seconds |\n|---|---|---|---|---|"
SCRIPTS = ("use.py", "use.mjs", "use.sh")


@dataclass(frozen=True)
class Client:
    """A client in its folder, installed in another."""

    folder: Path
    installed: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def script(self) -> Path:
        return next(self.folder / name for name in SCRIPTS if (self.folder / name).exists())

    @property
    def is_node(self) -> bool:
        return (self.folder / "package.json").exists()

    @property
    def tried(self) -> str:
        """The first line of its script, which says what is tried, without the marks of a comment."""
        lines = self.script.read_text(encoding="utf-8").splitlines()
        first = lines[1] if lines[0].startswith("#!") else lines[0]
        return first.strip('"#/ ').rstrip(".")

    def install(self) -> None:
        """Installs the newest version that its folder asks for."""
        if self.is_node:
            self.installed.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                shutil.copy(path, self.installed)
            _run(["npm", "install", "--no-audit", "--no-fund"], self.installed)
        else:
            _run(["uv", "venv", "--quiet", "--allow-existing", str(self.installed)], self.folder)
            asked = str(self.folder / "requirements.txt")
            python = str(self.installed / "bin" / "python")
            _run(["uv", "pip", "install", "--quiet", "--upgrade", "--python", python, "-r", asked], self.folder)

    def version(self) -> str:
        """Returns the installed version of what is named first."""
        if self.is_node:
            first = next(iter(json.loads((self.folder / "package.json").read_text())["dependencies"]))
            return str(json.loads((self.installed / "node_modules" / first / "package.json").read_text())["version"])
        first = (self.folder / "requirements.txt").read_text().splitlines()[0].split("[")[0].split("=")[0]
        code = f"from importlib.metadata import version; print(version({first!r}))"
        return subprocess.check_output([self.installed / "bin" / "python", "-c", code], text=True).strip()

    def use(self, environment: dict[str, str], place: Path) -> str:
        """Runs its script; returns the last lines that it wrote if it failed."""
        script = self.installed / self.script.name if self.is_node else self.script
        program = {".py": str(self.installed / "bin" / "python"), ".mjs": "node", ".sh": "bash"}[script.suffix]
        tools = self.installed / ("node_modules/.bin" if self.is_node else "bin")
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        try:
            _run([program, str(script)], place, environment | {"PATH": path, "HOME": str(place)})
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return str(error)
        return ""


def _run(command: list[str], place: Path, environment: Mapping[str, str] = MappingProxyType({})) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    given = os.environ | environment
    done = subprocess.run(command, cwd=place, env=given, text=True, timeout=SECONDS, check=False, **pipes)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed with {done.returncode}:\n{done.stdout[-4_000:]}")


def _tried(client: Client, environment: dict[str, str]) -> tuple[str, str]:
    """Installs and uses a client; returns its row of the table, and its problem or nothing."""
    problem, version, begun = "", "", time.monotonic()
    try:
        client.install()
        version, begun = client.version(), time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            problem = client.use(environment, Path(place))
    except (RuntimeError, subprocess.SubprocessError) as error:
        problem = str(error)
    said = "fails" if problem else "works"
    return f"| {client.name} | {version} | {client.tried} | {said} | {time.monotonic() - begun:.0f} |", problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="folders; all without a name")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "safelight-clients")
    parser.add_argument("--table", type=Path, help="a Markdown file, into which the table is written, too")
    options = parser.parse_args()
    folders = {path.parent for name in SCRIPTS for path in HERE.glob(f"*/{name}")}
    if unknown := set(options.names) - {path.name for path in folders}:
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    chosen = sorted(path for path in folders if not options.names or path.name in options.names)
    table, failed = [HEAD], 0
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        weights = Path(name) / "small"
        with small(weights) as one, agent() as other:
            environment = {"SMALL": one, "AGENT": other, "KEY": KEY, "WEIGHTS": str(weights), "PYTHON": sys.executable}
            for path in chosen:
                row, problem = _tried(Client(path, options.cache / path.name), environment)
                table.append(row)
                failed += bool(problem)
                print(row, flush=True)
                if problem:
                    print(problem, file=sys.stderr, flush=True)
    if options.table is not None:
        options.table.write_text("\n".join([*table, ""]), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
