"""``safelight train`` as its users meet it."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import engine
from app.cli import train as command
from app.cli.options import Parser
from engine import SafelightError
from engine.training import finetune
from tests.engine.training.teaching import write_base

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("models") / "base")


def safelight(*arguments: object) -> int:
    """The subcommand alone, its errors raised."""
    root = Parser(prog="safelight")
    command.add(root.add_subparsers(parser_class=Parser))
    args: argparse.Namespace = root.parse_args([str(argument) for argument in arguments])
    return int(args.run(args))


def tiny_run(base: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("train", "sudoku", "--model", base, "--out", out, "--device", "cpu", "--batch", 2, "--rank", 2, *more)


def test_the_command(base: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    made, out = finetune.made_pairs, tmp_path / "out"
    monkeypatch.setattr(finetune, "made_pairs", lambda name, _, *more, **options: made(name, 2, *more, **options))
    rest = ("--eval-every", 2, "--format", "digits")
    assert safelight(*tiny_run(base, out, *rest, "--steps", 2, "--rate", "1e-3")) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("training 0.0")
    assert first.endswith("GB free; starting")
    assert others[0].startswith("step 2 of 2: loss ")
    assert "causal " in others[0]
    assert others[1].startswith("step 2, 2 held-out puzzles: 0.0 % solved, ")
    assert others[2:] == [f"{out} holds the adapter."]
    assert safelight(*tiny_run(base, out, *rest, "--steps", 4, "--json")) == 0  # another rate
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["record"] for record in records] == ["TrainingStarted", "TrainingProgress", "TrainingMeasured"]
    assert [record["step"] for record in records] == [2, 4, 4]
    assert engine.load_adapter(engine.load_model(base, device="cpu"), out).rank == 2


def test_ctrl_c_keeps_what_was_learnt(
    base: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = finetune.AdapterTrainer._take_step

    def interrupted(self: finetune.AdapterTrainer) -> Any:
        signal.raise_signal(signal.SIGINT)
        return real(self)

    monkeypatch.setattr(finetune.AdapterTrainer, "_take_step", interrupted)
    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "out"
    assert safelight(*tiny_run(base, out, "--steps", 3, "--eval-every", 0)) == 130
    assert "stopped at step 1 of 3; run the same command again to go on" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    assert safelight(*tiny_run(base, out, "--steps", 3, "--eval-every", 0)) == 0
    assert "going on at step 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "fast"], "the rate must be a number above 0"),
        (["--model", "nowhere"], "there is no model at nowhere"),
        (["--out", ""], "--out: give a name"),
        (["--out", "/dev/null/out"], "/dev/null/out cannot be"),
        (["--out", "file"], "file is a file; give a folder for the adapter"),
        (["--out", "model"], "model holds a model or an adapter already"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    with pytest.raises(SafelightError, match=message) as caught:
        safelight(*tiny_run(base, Path("out"), *arguments))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
