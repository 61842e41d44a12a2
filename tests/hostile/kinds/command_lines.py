"""Command lines: every command and option, with values that fit, nearly fit or do not, run as ``safelight`` runs them.

No window opens, and what would work for long is given few steps or a reason to fail early.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
PLACES = (
    "puzzles.txt", "puzzles.txt", "folder/new", "folder/new", "", "binary", "pipe", "loop", "folder", "empty", "huge",
    "missing", "binary/x", "-", "/dev/null/x", "/proc/x/y", "~nosuchuser/x", "x" * 300, "a\0b", "\ud800", "é\u202e",
    "../inside/new", "-rf", "a\nb", "/dev/zero", "/dev/full",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "-1", "1e999", "nan", "-inf", "0x10", "1_0", "٣", "", " 1", "9" * 5_000, str(2**62), str(2**63),
    str(2**64), "1.5", "1e-400", "--", "a" * 5_000, "\x1b[2J",
)  # fmt: skip
MODELS = ("safelight-skills", "safelight-skills", "safelight-skills", "safelight-base", "26b-a4b", *PLACES)
SAMPLER = ("--entropy-bound", "--t-max", "--t-min", "--stability", "--confidence", "--canvas-length")
FAST = ["--max-steps", "1", "--max-new-tokens", "1"]
SHORT = 12  # tokens of a canvas; a whole one takes a tenth of a second


@cache
def _loaded() -> Any:
    import engine

    return engine.load_model("safelight-skills", device="cpu")


def _load(name: str, **options: str) -> Any:
    """The embedded model once, anything else as ever."""
    from engine.models.model import load_model

    plain = all(value in ("auto", "cpu") for value in options.values())
    return _loaded() if name == "safelight-skills" and plain else load_model(name, **options)


def _word(random: Random) -> str:
    return random.choice((*NUMBERS, *mutate.TEXTS, *PLACES, PUZZLE))


def _model(random: Random) -> list[str]:
    made = []
    for option, values in (
        ("--model", MODELS),
        ("--adapter", ("sudoku-lora", *PLACES)),
        ("--device", ("cpu", "cpu", "cuda:99", "meta", "tpu", "", "cuda:-1", "cpu:" + "9" * 40)),
        ("--dtype", ("float32", "int3", "")),
        ("--quantization", ("auto", "none", "q9", "")),
        ("--seed", NUMBERS),
    ):
        if random.random() < 0.07:
            made += [option, random.choice(values)]
    return made


def _sampler(random: Random) -> list[str]:
    made = ["--canvas-length", str(SHORT)] if random.random() < 0.8 else []
    if random.random() < 0.15:
        made += [random.choice(SAMPLER), random.choice(NUMBERS)]
    return [*FAST, *made]


def _generate(random: Random) -> list[str]:
    prompt = random.choice(("Spell cat.", "What is 4 + 5?", "-", "-", "", " ", "x" * 20_000, "a\0b", *mutate.TEXTS))
    return ["generate", prompt, *random.sample(["--json", "--watch", "--raw"], random.randrange(3)), "--pace", "0"]


def _sudoku(random: Random) -> list[str]:
    match random.randrange(3):
        case 0:
            return ["sudoku", "--make", random.choice(("1", "3", "0", "-5", "x")), "--givens", random.choice(NUMBERS)]
        case 1:
            return ["sudoku", "--file", random.choice(PLACES)]
        case _:
            return ["sudoku", random.choice((PUZZLE, PUZZLE[:-1], "0" * 81, "1" * 81, *mutate.TEXTS))]


def _decide(random: Random) -> list[str]:
    asked = [["--yes-no", "Is it?"], ["--choice", "Which?", "--option", "a", "--option", "b"], ["--level", "a"]]
    made = ["decide", *random.choice((["Spell cat."], ["-"], ["--file", random.choice(PLACES)], []))]
    made += random.choice((*asked, ["--questions", random.choice(PLACES)]))
    if random.random() < 0.3:
        made += ["--csv", random.choice(PLACES), "--out", random.choice(PLACES)]
    for option in ("--name", "--repeat", "--state"):
        if random.random() < 0.1:
            made += [option, random.choice((*NUMBERS, *PLACES))]
    return [*made, *random.choice(([], ["--json"], ["--joint"]))]


def _train(random: Random) -> list[str]:
    """Always with data that cannot be read: a run that works takes seconds."""
    data = random.choice(("missing", "binary", "empty", "pipe", "huge", "folder", "puzzles.txt", "a\0b", "loop"))
    made = ["train", random.choice(("sudoku", "sudoku", "chess", "")), "--out", random.choice(PLACES), "--data", data]
    for option in ("--steps", "--rank", "--rate", "--batch", "--puzzles", "--eval-every"):
        if random.random() < 0.1:
            made += [option, random.choice(NUMBERS)]
    return made


def _plan(random: Random) -> list[str]:
    return ["plan", random.choice(MODELS), *random.choice(([], ["--context", random.choice(NUMBERS)], ["--json"]))]


def _quantize(random: Random) -> list[str]:
    return ["quantize", random.choice(MODELS), random.choice(PLACES), "--to", random.choice(("int4", "nf4", "q2"))]


def _bench(random: Random) -> list[str]:
    made = ["bench", "--runs", random.choice(("1", "0", "x"))]
    return [*made, *random.choice(([], ["--shape", random.choice(PLACES)], ["--random-weights"], ["--compare", "x"]))]


def _export(random: Random) -> list[str]:
    made = ["export", random.choice(PLACES), random.choice((*PLACES, "out.html", "out.gif", "out.json", "out.png"))]
    for option in ("--speed", "--steps", "--scale", "--format"):
        if random.random() < 0.2:
            made += [option, _word(random)]
    return made


COMMANDS = (_generate, _decide, _sudoku, _train, _plan, _quantize, _bench, _export)
MODEL_OPTIONS = ("generate", "sudoku", "bench")


def _line(random: Random) -> list[str]:
    made = random.choice(COMMANDS)(random)
    if made[0] in MODEL_OPTIONS:
        made += [*_model(random), *_sampler(random)]
    if made[0] == "decide" and random.random() < 0.3:
        made += [word for word in _model(random) if word != "--seed"]
    match random.randrange(12):
        case 0:
            made[random.randrange(len(made))] = _word(random)
        case 1:
            made.insert(random.randrange(len(made) + 1), _word(random))
        case 2 if made[0] not in ("bench", "train"):
            del made[random.randrange(len(made))]
        case 3:
            made = [random.choice(("--model", "--seed")), _word(random), *made]
        case 4:
            made = random.choice((["--help"], ["--version"], [made[0], "--help"], [], [_word(random)], ["--self-test"]))
        case _:
            pass
    return _bounded(made)


def _bounded(made: list[str]) -> list[str]:
    """Without what the changes made long: tasks without a count, training whose data can be read."""
    needed = {"bench": "--runs", "train": "--data"}
    for word, option in needed.items():
        if word in made and option not in made:
            return [*made, option, "x"]
    return made


def _furnish(folder: Path) -> Path:
    here = folder / "inside"
    (here / "folder").mkdir(parents=True)
    (here / "puzzles.txt").write_text(f"# one\n{PUZZLE}\n")
    (here / "binary").write_bytes(bytes(range(256)) * 40)
    (here / "empty").touch()
    os.mkfifo(here / "pipe")
    (here / "loop").symlink_to("loop")
    with (here / "huge").open("wb") as file:
        file.truncate(10**12)
    return here


def _make(random: Random, folder: Path) -> Attempt:
    import engine
    from app.cli import window
    from app.cli.main import main

    here, line = _furnish(folder), _line(random)
    typed = random.choice((b"", b"Spell cat.\n", PUZZLE.encode(), b"\xff\xfe", b"\x00" * 100, b"x" * 10_000))

    def attempt() -> None:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        before = os.getcwd()
        os.chdir(here)
        try:
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8")),
                mock.patch.object(engine, "load_model", _load),
                mock.patch.object(window, "run", return_value=0),
            ):
                code = main(line)
        finally:
            os.chdir(before)
            _loaded().adapter_slot.clear()
        printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
        shown = str([word[:60] for word in line])
        assert "Traceback" not in printed + told, shown
        assert code in (0, 2), f"{shown} ended with {code}: {told[:300]}"
        if code == 2:
            assert told.startswith("safelight: "), f"{shown}: {told[:300]}"
            assert told.count("\n") == 1, f"{shown}: {told[:300]}"
            assert len(told) < 800, shown
            raise engine.SafelightError(told.strip())
        if "--json" in line and "--help" not in line:
            for record in printed.splitlines():
                json.loads(record)

    return attempt


def _prepare() -> None:
    import engine.memory.plan
    import engine.weights.loader  # noqa: F401 - what they import is not a case's time

    _loaded()


KINDS = (Kind("command-lines", _make, prepare=_prepare),)
