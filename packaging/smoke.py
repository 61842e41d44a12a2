"""Starts an installed Safelight or a bundle as its user would, and says what works. The standard library alone.

``smoke.py PROGRAM [--window PROGRAM]``: on the processor, with every embedded model, from an empty folder, as a user
without files and settings. Prints a line a check; exit status 0 or 1.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 300.0
PROMPT, ANSWER = "What is 47 + 5?", "52"
PUZZLE = "504608902602105308108302507809701403406803701703904806901507204207409605305206109"
# What a program needs of its environment; all else, as this checkout's settings, is left out.
PASSED = (
    *(
        "PATH",
        "LANG",
        "DISPLAY",
        "XAUTHORITY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
        "QT_QPA_PLATFORM",
        "OMP_NUM_THREADS",
    ),
    *(
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "COMSPEC",
        "PATHEXT",
        "TEMP",
        "TMP",
        "PROCESSOR_ARCHITECTURE",
        "NUMBER_OF_PROCESSORS",
    ),
)


class SmokeError(Exception):
    """What did not work, in one line."""


@dataclass(frozen=True)
class Program:
    """The commands, the window, and where they run."""

    commands: str
    window: str
    folder: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, window: bool = False) -> str:
        """Standard output of a command that succeeds.

        Raises:
            SmokeError: it fails, or takes too long.
        """
        command = [self.window if window else self.commands, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS, **self.where)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SmokeError(str(error)) from None
        out, complaint = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
        if done.returncode:
            raise SmokeError(f"exit status {done.returncode}: {(complaint or out).strip()[-500:]}")
        return out

    @property
    def where(self) -> dict[str, Any]:
        return {"cwd": self.folder, "env": dict(self.environment)}


def generate(program: Program) -> str:
    return expect(ANSWER, json.loads(program.run("generate", PROMPT, "--json", "--seed", "0"))["text"])


def wedlm(program: Program) -> str:
    said = json.loads(program.run("generate", PROMPT, "--json", "--seed", "0", "--model", "safelight-wedlm"))
    return expect(ANSWER, said["text"])


def talk(program: Program) -> str:
    """Safelight Talk greets; only an installation, never a bundle, may be without its package."""
    asked = ("generate", "hi", "--json", "--seed", "0", "--model", "safelight-talk")
    try:
        return expect("Hello", json.loads(program.run(*asked))["text"])
    except SmokeError as error:
        if (Path(program.commands).parent / "_internal").is_dir():
            raise
        return expect("Safelight Talk is not installed", str(error))


def formats(program: Program) -> str:
    """An answer that must be one of two."""
    said = program.run("generate", "Is 12 even?", "--choices", "yes", "no", "--json", "--seed", "0")
    return expect(f" {json.loads(said)['text'].strip()} ", " yes no ").strip()


def decide(program: Program) -> str:
    asked = "Does Ben have more coins than Ann?"
    said = program.run("decide", "Ann has 3 coins. Ben has 5.", "--yes-no", asked, "--json")
    return expect('"yes"', said)


def sudoku(program: Program) -> str:
    return expect('"valid": true', program.run("sudoku", PUZZLE, "--json", "--seed", "0"))


def plans(program: Program) -> str:
    names = sorted(path.parent.name for path in (ROOT / "assets" / "models").glob("*/config.json"))
    for name in names:
        expect('"fits": true', json.dumps(json.loads(program.run("plan", name, "--json"))))
    return f"{len(names)} models"


def image(program: Program) -> str:
    """A drawing is read; where no embedded model sees, it is refused in words."""
    (program.folder / "square.png").write_bytes(drawing())
    asked = ("generate", "What colour is the square?", "--image", "square.png", "--json", "--seed", "0")
    configs = sorted((ROOT / "assets" / "models").glob("*/config.json"))
    seeing = [path.parent.name for path in configs if "vision_config" in path.read_text(encoding="utf-8")]
    if seeing:
        return expect("red", json.loads(program.run(*asked, "--model", seeing[0]))["text"].lower())
    return refused(program, "cannot see images", *asked)


def drawing(side: int = 128) -> bytes:
    """A PNG: a red square on white."""
    white, red, edge = b"\xff\xff\xff", b"\xd6\x28\x28", 2 * side // 5
    through = b"\0" + white * edge + red * (side - 2 * edge) + white * edge
    rows = (b"\0" + white * side) * edge + through * (side - 2 * edge) + (b"\0" + white * side) * edge
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def export(program: Program) -> str:
    program.run("export", str(ROOT / "assets" / "traces" / "count.sltrace"), "run.gif")
    return f"{(program.folder / 'run.gif').stat().st_size} bytes"


def serve(program: Program) -> str:
    """The server starts, answers a request and ends."""
    command = [program.commands, "serve", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **program.where)
    silence = threading.Timer(SECONDS, server.kill)
    silence.start()
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline() or "{}")
        if "url" not in address:
            raise SmokeError("it ended before it listened")
        body = {"model": "safelight-mini", "seed": 0, "messages": [{"role": "user", "content": PROMPT}]}
        request = urllib.request.Request(
            address["url"].rstrip("/").removesuffix("/v1") + "/v1/chat/completions",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {address['api_key']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return expect(ANSWER, json.load(reply)["choices"][0]["message"]["content"])
    finally:
        silence.cancel()
        server.terminate()
        server.communicate(timeout=SECONDS)


def window(program: Program) -> str:
    """The real window loads a model, is asked by the keyboard, and prints the answer where it has a console."""
    said = program.run("--seed", "0", "--self-test", PROMPT, window=True)
    return expect(ANSWER, said) if program.window == program.commands else "exit status 0"


def bad_input(program: Program) -> str:
    return refused(program, "there is no model", "generate", "Hello.", "--model", "no-such-model")


def refused(program: Program, words: str, *arguments: str) -> str:
    """
    Raises:
        SmokeError: the command succeeds, or says something else.
    """
    try:
        program.run(*arguments)
    except SmokeError as error:
        return expect(words, str(error))
    raise SmokeError(f"it was taken, without {words!r}")


CHECKS: tuple[Callable[[Program], str], ...] = (
    *(plans, generate, wedlm, talk, formats, decide, sudoku, image, export, serve, window, bad_input),
)


def expect(words: str, said: str) -> str:
    """
    Raises:
        SmokeError: the words are not in it.
    """
    if words not in said:
        raise SmokeError(f"{words!r} is not in {said[:300]!r}")
    return words


def bare(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a user without files and settings, and of this machine only what a program needs."""
    home = folder / "home"
    home.mkdir()
    own = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    passed = {name: value for name, value in given.items() if name.upper() in PASSED}
    return {"QT_QPA_PLATFORM": "offscreen", "LANG": "C.UTF-8"} | passed | own


def check(program: Program, checks: tuple[Callable[[Program], str], ...] = CHECKS) -> int:
    """Run all checks, whatever the others come to; exit status 0 or 1."""
    failed = 0
    for each in checks:
        start = time.monotonic()
        try:
            found, mark = each(program), "ok"
        except (SmokeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            found, mark = " ".join(f"{type(error).__name__}: {error}".split()), "FAILED"
            failed += 1
        print(f"{mark:6} {each.__name__:10} {time.monotonic() - start:6.1f} s  {found}", flush=True)
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the command: safelight, safelight-cli.exe, or a path to it")
    parser.add_argument("--window", metavar="PROGRAM", help="the window, where it is another program, as on Windows")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr, unused-ignore]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        return check(Program(args.program, args.window or args.program, place, bare(place, os.environ)))


if __name__ == "__main__":
    sys.exit(main())
