"""Times Safelight and llama.cpp at the same work on this machine, in turn, and prints a table.

``uv run python packaging/peers/llama.py --llama FOLDER MODEL.gguf … [--threads 1,2] [--repeats 3] [--json]``: the same
file by both, as it is and in 8 bits. Prefill is reading the prompt, decode is writing a token a pass behind it, the
likeliest by Safelight, any by llama.cpp, which draws none. ``--shape-gguf FILE``, written by ``shape_gguf.py``: a pass
over 256 rows with all logits behind a context. Safelight's is a denoising step, with self-conditioning and sampler,
which llama.cpp's lacks. Each figure is of a new process, by what a user runs: ``safelight bench`` and ``llama-bench``.

llama.cpp: a release of it; or its sources, which are in vendor/llama.cpp of what ``pip download --no-deps --no-binary
llama-cpp-python llama-cpp-python`` fetches: ``cmake -B FOLDER -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON`` there, and
``cmake --build FOLDER --target llama-bench llama-quantize``. packaging/README.md says more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

from compared import LlamaTest, Measured, PeerError, Turns, llama_test, safelight_step, safelight_writing, table

ROOT = Path(__file__).resolve().parents[2]
BUSY = 0.3  # processes that want a core, on average over a minute, from which the table says so
EIGHT = "Q8_0"
OWN = str(Path(sys.executable).with_name("safelight"))  # this checkout's


def output_of(command: Sequence[str | Path], seconds: float) -> str:
    """Returns what a program prints.

    Raises:
        PeerError: it cannot be started, fails, or takes longer.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds)
    except OSError as error:
        raise PeerError(f"{command[0]} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise PeerError(f"{name} took more than {seconds:.0f} s; raise --limit") from None
    if done.returncode < 0:
        raise PeerError(f"{name} was ended by signal {-done.returncode}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:300]
        raise PeerError(f"{name} failed with status {done.returncode}: {last}")
    return done.stdout


@dataclass
class Safelight:
    """The installed program."""

    program: str
    limit: float  # seconds of one run

    def write(self, model: Path, quantization: str, prompt: int, new: int, threads: int) -> Measured:
        asked = ["--prompt-tokens", prompt, "--max-new-tokens", new, "--runs", 1, "--quantization", quantization]
        return safelight_writing(self._bench(["--model", model, *asked], threads))

    def step(self, shape: str, context: int, rows: int, steps: int, threads: int) -> Measured:
        asked = ["--random-weights", "--quantization", "int4", "--context", context, "--canvas-length", rows]
        return safelight_step(self._bench(["--shape", shape, *asked, "--steps", steps], threads))

    def _bench(self, arguments: Sequence[object], threads: int) -> str:
        command = [self.program, "bench", *map(str, arguments), "--threads", str(threads), "--device", "cpu", "--json"]
        return output_of(command, self.limit)


@dataclass
class Llama:
    """llama.cpp's programs, and what they said of themselves."""

    bench: Path
    limit: float  # seconds of one run
    builds: set[str] = field(default_factory=set)
    processors: set[str] = field(default_factory=set)

    def write(self, model: Path, prompt: int, new: int, threads: int) -> Measured:
        read = self._test(model, threads, prompt=prompt, new=0, depth=0)
        written = self._test(model, threads, prompt=0, new=new, depth=prompt)
        return Measured(read.bits, prefill=read.rate, decode=written.rate)

    def step(self, model: Path, context: int, rows: int, repeats: int, threads: int) -> Measured:
        """``--embeddings 1`` has llama.cpp put out all rows: their embeddings, and with them their logits."""
        read = self._test(model, threads, prompt=context, new=0, depth=0)
        passed = self._test(model, threads, "-embd", 1, "-r", repeats, prompt=rows, new=0, depth=context)
        return Measured(read.bits, prefill=read.rate, step=rows / passed.rate)

    def _test(self, model: Path, threads: int, *more: object, prompt: int, new: int, depth: int) -> LlamaTest:
        work = ["-p", prompt, "-n", new, "-d", depth, "-t", threads, "-dev", "none", "-r", 1, "-o", "json", *more]
        printed = output_of([self.bench, "-m", model, *map(str, work)], self.limit)
        found = llama_test(printed, prompt=prompt, new=new, depth=depth, threads=threads)
        self.builds.add(found.build)
        self.processors.add(found.processor)
        return found

    def in_eight_bits(self, model: Path, folder: Path) -> Path:
        """Returns a Q8_0 form of a file, made by ``llama-quantize`` next to ``llama-bench`` unless it is there."""
        made = folder / f"{model.stem}-{EIGHT}.gguf"
        if not made.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            part = made.with_suffix(".part")
            quantize = self.bench.with_name(self.bench.name.replace("bench", "quantize"))
            output_of([quantize, "--allow-requantize", model, part, EIGHT], self.limit)
            part.rename(made)
        return made


def find_bench(given: Path | None) -> Path:
    """Returns ``llama-bench``: the given program, or one in the given folder, else that on PATH.

    Raises:
        PeerError: there is none.
    """
    name = "llama-bench" + (".exe" if sys.platform == "win32" else "")
    if given is None:
        found = shutil.which(name)
        if found is None:
            raise PeerError("there is no llama-bench on PATH; give its folder with --llama (--help says how to get it)")
        return Path(found)
    places = [given, given / name, given / "bin" / name, given / "build" / "bin" / name]
    for place in places:
        if place.is_file():
            return place
    raise PeerError(f"there is no {name} at {given}; build it, or give its folder (--help says how to get it)")


def take_turns(row: Turns, repeats: int, ours: Callable[[], Measured], theirs: Callable[[], Measured]) -> Turns:
    """Runs both by turns, Safelight first."""
    for turn in range(repeats):
        for name, found, work in (("Safelight", row.ours, ours), ("llama.cpp", row.theirs, theirs)):
            print(f"{row.model}, {row.threads} threads, turn {turn + 1}: {name} …", file=sys.stderr, flush=True)
            found.append(work())
    return row


def state(safelight: Safelight, llama: Llama, load: float | None) -> dict[str, Any]:
    """Describes both programs and the machine."""
    is_own = safelight.program == OWN  # what another installation was made from is not known
    return {
        "safelight": output_of([safelight.program, "--version"], 60).strip(),
        "commit": commit() if is_own else None,
        "torch": installed("torch") if is_own else None,
        "llama.cpp": sorted(llama.builds),
        "processor": sorted(llama.processors),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_at_start": load,
    }


def commit() -> str | None:
    try:
        return output_of(["git", "-C", ROOT, "describe", "--always", "--dirty"], 60).strip()
    except PeerError:
        return None  # not a checkout


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.gguf", help="of causal models")
    parser.add_argument(
        "--llama", type=Path, metavar="FOLDER", help="of llama-bench, or itself (default: that on PATH)"
    )
    parser.add_argument("--safelight", default=OWN, metavar="PROGRAM", help="(default: this checkout's)")
    parser.add_argument("--threads", type=counts, default=[os.cpu_count() or 1], metavar="N,N", help="(default: all)")
    parser.add_argument("--repeats", type=count, default=3, metavar="N", help="turns of each (default: 3)")
    parser.add_argument("--prompt", type=count, default=512, metavar="N", help="tokens to read (default: 512)")
    parser.add_argument("--new", type=count, default=256, metavar="N", help="tokens to write (default: 256)")
    parser.add_argument("--eight", type=Path, metavar="FOLDER", help="also in 8 bits; llama.cpp's file is kept there")
    shape = parser.add_argument_group("a denoising step")
    shape.add_argument("--shape-gguf", type=Path, metavar="FILE", help="written by shape_gguf.py")
    shape.add_argument("--shape", default="26b-a4b", metavar="ID_OR_DIR", help="the same shape (default: 26b-a4b)")
    shape.add_argument("--context", type=count, default=256, metavar="N", help="tokens before it (default: 256)")
    shape.add_argument("--rows", type=count, default=256, metavar="N", help="of the canvas (default: 256)")
    shape.add_argument("--steps", type=count, default=3, metavar="N", help="passes of each turn (default: 3)")
    parser.add_argument("--limit", type=count, default=3600, metavar="S", help="seconds of one run (default: 3600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every turn")
    return parser


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f"give a whole number from 1 to {10**6}, not {text[:40]!r}")
    return int(text)


def counts(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def compare(options: argparse.Namespace, safelight: Safelight, llama: Llama) -> list[Turns]:
    """Measures all that was asked for."""
    files = [(model, model, "auto") for model in options.models]
    if options.eight is not None:
        files += [(model, llama.in_eight_bits(model, options.eight), "int8") for model in options.models]
    rows = []
    for model, other, packing in files:
        for threads in options.threads:
            work = options.prompt, options.new, threads
            ours, theirs = partial(safelight.write, model, packing, *work), partial(llama.write, other, *work)
            rows.append(take_turns(Turns(model.stem, threads), options.repeats, ours, theirs))
    for threads in options.threads if options.shape_gguf is not None else ():
        row = Turns(f"{Path(options.shape).name}, random weights (llama.cpp: {options.shape_gguf.stem})", threads)
        passes = options.context, options.rows, options.steps, threads
        ours, theirs = partial(safelight.step, options.shape, *passes), partial(llama.step, options.shape_gguf, *passes)
        rows.append(take_turns(row, options.repeats, ours, theirs))
    return rows


def main(given: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(given)
    try:
        for file in [*options.models, *([options.shape_gguf] if options.shape_gguf else [])]:
            if not file.is_file():
                raise PeerError(f"there is no file {file}")
        if not options.models and options.shape_gguf is None:
            raise PeerError("give a GGUF file, or --shape-gguf")
        safelight = Safelight(options.safelight, options.limit)
        llama = Llama(find_bench(options.llama), options.limit)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        rows = compare(options, safelight, llama)
        found = state(safelight, llama, load)
    except PeerError as error:
        print(f"llama.py: {error}", file=sys.stderr)
        return 2
    if options.json:
        work = {"prompt": options.prompt, "new": options.new, "context": options.context, "rows": options.rows}
        print(json.dumps({"state": found, "work": work, "rows": [row.as_dict() for row in rows]}))
    else:
        print(f"{table(rows)}\n\n{said(options, found)}")
    return 0


def said(options: argparse.Namespace, found: dict[str, Any]) -> str:
    """Returns the lines under the table: both programs, the machine, the work."""
    work = [f"prompt {options.prompt}, {options.new} new tokens"] if options.models else []
    work += [f"{options.rows} rows behind {options.context}"] if options.shape_gguf is not None else []
    programs = (
        f"{found['safelight']}"
        if found["torch"] is None
        else f"{found['safelight']} ({found['commit']}, torch {found['torch']})"
    )
    machine = f"{', '.join(found['processor'])}, {found['cores']} cores"
    lines = [f"{programs}; llama.cpp {', '.join(found['llama.cpp'])}; {machine}; {'; '.join(work)}"]
    lines[0] += f"; medians of {options.repeats}."
    load = found["load_at_start"]
    if load is not None and load > BUSY:
        lines.append(f"The machine was busy when it began (load {load:.1f}): ratios are rough, and rates do not hold.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
